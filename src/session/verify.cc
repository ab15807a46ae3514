#include "session/verify.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/limits.h"
#include "session/chain.h"
#include "session/quote.h"
#include "session/restore.h"
#include "session/window.h"

namespace tenuto {
namespace {

constexpr SeqId kStored{0};
constexpr SeqId kScratch{1};
constexpr SeqId kFiller{2};
constexpr TokenPos kFillerTokens = 13;  // no multiple of any kernel's width

// Logits at each probed position, in the order of `positions`.
using Probes = std::vector<std::vector<float>>;

struct TurnEnds {
  TokenPos prompt;
  TokenPos answer;
};

double LargestDifference(const Probes& a, const Probes& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[i].size(); ++j) {
      const double difference =
          std::abs(static_cast<double>(a[i][j]) - static_cast<double>(b[i][j]));
      // A NaN on one side is as far away as can be.
      if (!(difference <= largest)) largest = std::isnan(difference) ? HUGE_VAL : difference;
    }
  return largest;
}

class Verifier {
 public:
  Verifier(Executor& executor, PayloadStore& store, const SessionKey& key,
           const std::function<void(const std::string&)>& progress)
      : executor_(executor), store_(store), owner_(OwnerDigest(key)), progress_(progress) {}

  Result<VerifyReport> Run(TokenLog& log, const SessionKey& key) {
    TENUTO_TRY(Load(log, key));
    if (report_.stored_tokens == 0) return report_;
    Tell("import");
    TENUTO_TRY(ImportAll());
    if (imported_end_ == 0) return report_;
    Tell("export and compare bytes");
    TENUTO_TRY(CompareBytes());
    ChoosePositions();
    Tell("logits from restored KV");
    TENUTO_ASSIGN(const Probes restored, ProbeRestored(kStored));
    TENUTO_TRY(executor_.Truncate(kStored, 0));
    Tell("recompute in large batches");
    TENUTO_ASSIGN(const Probes large, ProbeBatched(executor_.batch_tokens_max()));
    Tell("recompute in other cells");
    TENUTO_ASSIGN(const Probes elsewhere, ProbeElsewhere());
    Tell("recompute in batches of at most 64");
    TENUTO_ASSIGN(const Probes small, ProbeBatched(std::min(64, executor_.batch_tokens_max())));
    TENUTO_TRY(Replay());
    TENUTO_ASSIGN(const Probes replayed, ProbeRestored(kStored));
    TENUTO_TRY(executor_.Truncate(kStored, 0));
    report_.restored_difference = LargestDifference(restored, replayed);
    const std::array<const Probes*, 4> recomputed = {&large, &elsewhere, &small, &replayed};
    for (size_t i = 0; i < recomputed.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        report_.recompute_difference = std::max(report_.recompute_difference,
                                                LargestDifference(*recomputed[i], *recomputed[j]));
    for (const auto& logits : replayed)
      for (const float logit : logits)
        report_.logit_magnitude =
            std::max(report_.logit_magnitude, std::abs(static_cast<double>(logit)));
    return report_;
  }

 private:
  void Tell(const std::string& what) const {
    if (progress_) progress_(what);
  }

  Status Load(TokenLog& log, const SessionKey& key) {
    TENUTO_ASSIGN(const SessionRow row, log.FindSession(key));
    if (row.vocabulary != executor_.info().vocabulary)
      return Error(Code::kConflict,
                   "session " + key.Short() + " was written with another model's vocabulary");
    const TokenizeText tokenize = [this](std::string_view text, bool add_special,
                                         bool parse_special) {
      return executor_.Tokenize(text, add_special, parse_special);
    };
    TENUTO_ASSIGN(const SessionWindow window, ReadSessionWindow(log, tokenize, row));
    TENUTO_ASSIGN(const auto turns, log.ReadWindow(row.id, row.head));
    tokens_ = window.tokens();
    PlaceTurns(turns, window);
    TENUTO_ASSIGN(const auto rows, log.ReadPieces(row.id));
    ChainBuild build = BuildChain(rows, tokens_, owner_, executor_.info().fingerprint);
    chain_ = std::move(build.chain);
    report_.log_tokens = static_cast<int32_t>(tokens_.size());
    report_.stored_tokens = chain_.end();
    report_.pieces = static_cast<int32_t>(chain_.pieces.size());
    report_.piece_bytes = chain_.bytes();
    report_.unusable = std::move(build.reasons);
    if (chain_.end() >= executor_.info().cells)
      return Error(Code::kExhausted,
                   "the session has " + std::to_string(chain_.end()) +
                       " stored tokens, more than the KV cells of this engine; give -c");
    return Ok();
  }

  // What a cut kept was computed in one go with the prompt of the turn that cut.
  void PlaceTurns(std::span<const TurnRow> turns, const SessionWindow& window) {
    auto end = static_cast<TokenPos>(tokens_.size());
    for (size_t i = turns.size(); i-- > 0;) {
      const bool since_cut =
          turns[i].window_first == window.first() && window.first() + i >= window.spans_since();
      if (!since_cut) break;
      const auto answer = static_cast<TokenPos>(turns[i].answer.size());
      turns_.insert(turns_.begin(), TurnEnds{end - answer, end});
      end -= window.turn_size(i);
    }
  }

  Status ImportAll() {
    for (const PieceRow& row : chain_.pieces) {
      auto read = Read(row);
      if (const auto* bad = std::get_if<PieceError>(&read)) {
        Refuse(row, bad->reason, bad->error);
        return Ok();
      }
      const Status imported =
          executor_.Import(kStored, row.range, std::get<std::span<const std::byte>>(read));
      // The checksums hold and the bytes are still no KV of this executor.
      if (!imported && imported.error().code() == Code::kCorrupt) {
        Refuse(row, "corrupt", imported.error());
        return Ok();
      }
      TENUTO_TRY(imported);
      imported_end_ = row.range.end;
    }
    return Ok();
  }

  // A bad piece takes those after it along: they need what is before them.
  void Refuse(const PieceRow& row, const std::string& reason, const Error& error) {
    report_.unusable.push_back({reason, chain_.end() - row.range.begin, error.message()});
    ++report_.damaged_pieces;
  }

  std::variant<std::span<const std::byte>, PieceError> Read(const PieceRow& row) {
    if (!PossiblePieceSize(row))
      return PieceError{"corrupt", Error(Code::kCorrupt, "piece row names an impossible size")};
    buffer_.resize(row.location.bytes);
    return ReadPiece(store_, row, owner_, executor_.info().codec, buffer_);
  }

  Status CompareBytes() {
    std::vector<std::byte> exported;
    for (const PieceRow& row : chain_.pieces) {
      if (row.range.end > imported_end_) break;
      const auto read = Read(row);
      const auto* payload = std::get_if<std::span<const std::byte>>(&read);
      TENUTO_TRY(executor_.Export(kStored, row.range, exported));
      if (payload == nullptr || !std::ranges::equal(*payload, exported)) ++report_.pieces_unequal;
    }
    return Ok();
  }

  void ChoosePositions() {
    std::set<TokenPos> chosen;
    for (const int quarter : {1, 2, 3, 4})
      chosen.insert(std::max(1, imported_end_ * quarter / 4));
    report_.positions.assign(chosen.begin(), chosen.end());
  }

  // From KV of [0, p) in `seq`, the one token at p is forwarded by itself.
  Result<Probes> ProbeRestored(SeqId seq) {
    Probes probes;
    for (const TokenPos position : report_.positions) {
      TENUTO_TRY(executor_.Truncate(kScratch, 0));
      TENUTO_TRY(executor_.CopyPrefix(seq, kScratch, position));
      const ForwardToken token{kScratch, position, TokenAt(position), true};
      TENUTO_TRY(executor_.Forward({&token, 1}));
      Keep(probes, 0);
    }
    TENUTO_TRY(executor_.Truncate(kScratch, 0));
    return probes;
  }

  Result<Probes> ProbeBatched(int32_t batch_tokens) {
    Probes probes;
    const TokenPos end = report_.positions.back() + 1;
    std::vector<ForwardToken> batch;
    for (TokenPos at = 0; at < end; at += batch_tokens) {
      batch.clear();
      size_t outputs = 0;
      for (TokenPos p = at; p < std::min(end, at + batch_tokens); ++p) {
        const bool probe = std::ranges::binary_search(report_.positions, p);
        outputs += probe ? 1 : 0;
        batch.push_back({kScratch, p, TokenAt(p), probe});
      }
      TENUTO_TRY(executor_.Forward(batch));
      for (size_t i = 0; i < outputs; ++i)
        Keep(probes, i);
    }
    TENUTO_TRY(executor_.Truncate(kScratch, 0));
    return probes;
  }

  // As ProbeBatched, but behind a few cells of something else: where KV lies decides in which order
  // it is summed.
  Result<Probes> ProbeElsewhere() {
    const TokenPos few =
        std::min<TokenPos>(kFillerTokens, executor_.info().cells - imported_end_ - 1);
    std::vector<ForwardToken> filler;
    for (TokenPos p = 0; p < few; ++p)
      filler.push_back({kFiller, p, TokenAt(0), false});
    if (!filler.empty()) TENUTO_TRY(executor_.Forward(filler));
    auto probes = ProbeBatched(executor_.batch_tokens_max());
    TENUTO_TRY(executor_.Truncate(kFiller, 0));
    return probes;
  }

  // Computes [0, imported_end_) again in the batches in which a server that had nothing else to do
  // computed it: prompts in chunks, answers token by token. A model's kernels for one token and for
  // many round differently, so only this can be equal bit for bit.
  Status Replay() {
    constexpr TokenPos kTellEvery = 256;
    const TokenPos chunk = std::min(kPrefillChunkTokens, executor_.batch_tokens_max());
    TokenPos at = 0, told = 0;
    for (const TurnEnds& turn : turns_) {
      while (at < std::min(turn.prompt, imported_end_)) {
        const TokenPos n = std::min({turn.prompt - at, imported_end_ - at, chunk});
        TENUTO_TRY(ForwardWithoutOutput(at, n));
        at += n;
      }
      // An answer's last token goes with the next prompt.
      for (; at < std::min(turn.answer - 1, imported_end_); ++at) {
        if (at >= told) {
          Tell("recompute as it was served, token by token: " + std::to_string(at) + " of " +
               std::to_string(imported_end_));
          told = at + kTellEvery;
        }
        TENUTO_TRY(ForwardWithoutOutput(at, 1));
      }
    }
    return Ok();
  }

  // The tokens [begin, begin + count) into kStored.
  Status ForwardWithoutOutput(TokenPos begin, TokenPos count) {
    std::vector<ForwardToken> batch;
    for (TokenPos p = begin; p < begin + count; ++p)
      batch.push_back({kStored, p, TokenAt(p), false});
    return executor_.Forward(batch);
  }

  void Keep(Probes& probes, size_t output) const {
    const auto logits = executor_.Logits(output);
    probes.emplace_back(logits.begin(), logits.end());
  }

  // The stored part never covers the last token of the log, so the one after it exists.
  TokenId TokenAt(TokenPos position) const { return tokens_[static_cast<size_t>(position)]; }

  Executor& executor_;
  PayloadStore& store_;
  const Digest256 owner_;
  const std::function<void(const std::string&)>& progress_;
  VerifyReport report_;
  std::vector<TokenId> tokens_;
  std::vector<TurnEnds> turns_;
  KvChain chain_;
  TokenPos imported_end_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace

Result<VerifyReport> VerifySession(Executor& executor, TokenLog& log, PayloadStore& store,
                                   const SessionKey& key,
                                   const std::function<void(const std::string&)>& progress) {
  return Verifier(executor, store, key, progress).Run(log, key);
}

}  // namespace tenuto

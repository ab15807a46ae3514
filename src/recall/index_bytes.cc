#include <algorithm>
#include <memory>
#include <utility>

#include "format/bytes.h"
#include "format/checksum.h"
#include "recall/index.h"

namespace tenuto {
namespace {

constexpr std::string_view kMagic = "TNTRECAL";
constexpr size_t kHeaderBytes = 32;
constexpr uint64_t kU32Max = 0xFFFFFFFFu;

// Beside TurnInfo's flags in a turn's first byte.
constexpr uint8_t kNumberFollows = 32;  // else one more than the turn's before
constexpr uint8_t kZoneFollows = 64;    // else that of the turn before
constexpr uint8_t kRecalledFollow = 128;
constexpr uint8_t kStoredFlags = 31;

constexpr size_t kTurnBytesMin = 7;
constexpr size_t kPassageBytesMin = 2;
constexpr size_t kTermBytesMin = 2;

// Beside a term's key.
enum class TermSize : uint8_t { kOne, kFew, kMany };
constexpr uint64_t kTermSizes = 4;
constexpr uint32_t kManyEntries = 32;  // from here on counts are stored, and entries not looked at

Error Damaged(std::string_view what) {
  return {Code::kCorrupt, "recall index: " + std::string(what)};
}

}  // namespace

// Writes the body. Reads nothing but the index.
class IndexWriter {
 public:
  explicit IndexWriter(const RecallIndex& index) : index_(index) {}

  std::string Write() {
    Turns();
    Passages();
    for (const uint32_t count : index_.languages_)
      PutVarint(body_, count);
    Terms();
    return std::move(body_);
  }

 private:
  // Tokens of user and answer, by turn.
  std::vector<uint32_t> TokensByTurn() const {
    std::vector<uint32_t> tokens(index_.turns_.size());
    for (const PassageInfo& passage : index_.passages_)
      tokens[passage.turn_at] += uint32_t{passage.user_tokens} + passage.answer_tokens;
    return tokens;
  }

  void Turns() {
    PutVarint(body_, index_.turns_.size());
    const std::vector<uint32_t> tokens = TokensByTurn();
    TurnInfo before;
    for (uint32_t at = 0; at < index_.turns_.size(); ++at) {
      const TurnInfo& turn = index_.turns_[at];
      const auto recalled = index_.RecalledBy(at);
      uint8_t flags = turn.flags;
      if (turn.turn != before.turn + 1) flags |= kNumberFollows;
      if (turn.time.zone_s != before.time.zone_s) flags |= kZoneFollows;
      if (!recalled.empty()) flags |= kRecalledFollow;
      body_ += static_cast<char>(flags);
      if ((flags & kNumberFollows) != 0) PutVarint(body_, turn.turn - before.turn);
      PutVarint(body_, ZigZag(turn.time.unix_s - before.time.unix_s));
      if ((flags & kZoneFollows) != 0) PutVarint(body_, ZigZag(turn.time.zone_s));
      PutVarint(body_, turn.tokens - tokens[at]);
      for (uint32_t shift = 0; shift < 32; shift += 8)
        body_ += static_cast<char>(turn.user_digest >> shift & 0xFF);
      if (!recalled.empty()) {
        PutVarint(body_, recalled.size());
        for (const uint32_t one : recalled)
          PutVarint(body_, one);
      }
      before = turn;
    }
  }

  void Passages() {
    PutVarint(body_, index_.passages_.size());
    uint32_t at_before = 0;
    for (const PassageInfo& passage : index_.passages_) {
      PutVarint(body_, passage.user_tokens * 2u + (passage.turn_at - at_before));
      PutVarint(body_, passage.answer_tokens);
      at_before = passage.turn_at;
    }
  }

  void Terms() {
    std::vector<std::pair<TermKey, const Postings*>> sorted;
    sorted.reserve(index_.grown_.size());
    for (const auto& [key, grown] : index_.grown_)
      sorted.emplace_back(key, &grown.postings);
    std::sort(sorted.begin(), sorted.end());
    PutVarint(body_, index_.terms_);
    auto grown = sorted.begin();
    for (const auto& term : index_.loaded_) {
      for (; grown != sorted.end() && grown->first < term.key; ++grown)
        Term(grown->first, *grown->second);
      if (term.postings.all > 0) Term(term.key, term.postings);
    }
    for (; grown != sorted.end(); ++grown)
      Term(grown->first, *grown->second);
  }

  void Term(TermKey key, const Postings& postings) {
    const TermSize size = postings.all >= kManyEntries ? TermSize::kMany
                          : postings.all > 1           ? TermSize::kFew
                                                       : TermSize::kOne;
    PutVarint(body_, (key - key_before_) * kTermSizes + static_cast<uint64_t>(size));
    if (size != TermSize::kOne) PutVarint(body_, postings.all);
    if (size == TermSize::kMany) {
      PutVarint(body_, postings.all - postings.df);
      PutVarint(body_, postings.df - postings.df_user);
      PutVarint(body_, postings.last_passage);
      PutVarint(body_, postings.bytes.size());
    }
    body_ += postings.bytes;
    key_before_ = key;
  }

  const RecallIndex& index_;
  std::string body_;
  TermKey key_before_ = 0;
};

std::vector<std::byte> RecallIndex::Encode() const {
  const std::string body = IndexWriter(*this).Write();
  std::vector<std::byte> bytes(kHeaderBytes + body.size() + kChecksumBytes);
  const std::span<std::byte> out(bytes);
  PutBytes(out, 0, std::as_bytes(std::span(kMagic)));
  PutLe<uint16_t>(out, 8, kRecallIndexVersion);
  PutLe<uint32_t>(out, 12, kAnalyserVersion);
  PutLe<uint64_t>(out, 16, body.size());
  PutBytes(out, kHeaderBytes, std::as_bytes(std::span(body)));
  PutLe(out, kHeaderBytes + body.size(), ChecksumOf(out.first(kHeaderBytes + body.size())));
  return bytes;
}

// Reads a body whose checksum fits; still trusts no number.
class IndexReader {
 public:
  IndexReader(std::shared_ptr<const std::byte[]> owner, std::string_view body) : reader_(body) {
    index_.loaded_bytes_ = std::move(owner);
  }

  Result<RecallIndex> Read() {
    if (!Turns()) return Damaged("turns");
    if (!Passages()) return Damaged("passages");
    for (uint32_t& count : index_.languages_) {
      count = static_cast<uint32_t>(reader_.NextUpTo(kU32Max));
    }
    if (reader_.bad() || !Terms()) return Damaged("terms");
    if (!reader_.done()) return Damaged("bytes behind the last term");
    for (const TurnInfo& turn : index_.turns_) {
      if (!turn.Is(TurnInfo::kRemoved)) index_.Count(turn, 1);
    }
    return std::move(index_);
  }

 private:
  // A count as far as the bytes that are left can hold it.
  size_t Likely(uint64_t count, size_t bytes_each) const {
    return std::min<uint64_t>(count, reader_.left() / bytes_each);
  }

  bool Turns() {
    const uint64_t count = reader_.NextUpTo(kU32Max);
    index_.turns_.reserve(Likely(count, kTurnBytesMin));
    TurnInfo turn;
    for (uint64_t at = 0; at < count && !reader_.bad(); ++at) {
      const std::string_view flags = reader_.Bytes(1);
      if (flags.empty() || !Turn(static_cast<uint8_t>(flags[0]), at, turn)) return false;
      index_.turns_.push_back(turn);
    }
    return !reader_.bad();
  }

  // `turn`: the one before.
  bool Turn(uint8_t flags, uint64_t at, TurnInfo& turn) {
    const uint64_t delta = (flags & kNumberFollows) != 0 ? reader_.NextUpTo(kU32Max) : 1;
    if (turn.turn + delta > kU32Max || (at > 0 && delta == 0)) return false;
    turn.turn += static_cast<uint32_t>(delta);
    turn.flags = flags & kStoredFlags;
    turn.time.unix_s = static_cast<int64_t>(static_cast<uint64_t>(turn.time.unix_s) +
                                            static_cast<uint64_t>(UnZigZag(reader_.Next())));
    if ((flags & kZoneFollows) != 0) {
      turn.time.zone_s = static_cast<int32_t>(UnZigZag(reader_.NextUpTo(kU32Max)));
    }
    turn.tokens = static_cast<uint32_t>(reader_.NextUpTo(kU32Max));
    const std::string_view digest = reader_.Bytes(4);
    if (digest.empty()) return false;
    turn.user_digest = 0;
    for (uint32_t i = 0; i < 4; ++i)
      turn.user_digest |= uint32_t{static_cast<uint8_t>(digest[i])} << 8 * i;
    if ((flags & kRecalledFollow) == 0) return true;
    const uint64_t recalled = reader_.NextUpTo(kU32Max);
    for (uint64_t i = 0; i < recalled && !reader_.bad(); ++i) {
      index_.recalled_[static_cast<uint32_t>(at)].push_back(
          static_cast<uint32_t>(reader_.NextUpTo(kU32Max)));
    }
    return recalled > 0;
  }

  // Each turn has at least one passage, in order.
  bool Passages() {
    const uint64_t count = reader_.NextUpTo(kU32Max);
    index_.passages_.reserve(Likely(count, kPassageBytesMin));
    uint64_t at = 0;
    for (uint64_t i = 0; i < count && !reader_.bad(); ++i) {
      PassageInfo passage;
      const uint64_t packed = reader_.NextUpTo(2 * kPassageTokensMax + 1);
      const uint64_t delta = packed & 1;
      at += delta;
      if (at >= index_.turns_.size() || (i == 0 && delta != 0)) return false;
      passage.turn_at = static_cast<uint32_t>(at);
      passage.user_tokens = static_cast<uint16_t>(packed >> 1);
      passage.answer_tokens = static_cast<uint16_t>(reader_.NextUpTo(kPassageTokensMax));
      TurnInfo& turn = index_.turns_[at];
      if (i == 0 || delta == 1) turn.first_passage = static_cast<uint32_t>(i);
      turn.tokens += uint32_t{passage.user_tokens} + passage.answer_tokens;
      index_.passages_.push_back(passage);
    }
    const bool all =
        index_.turns_.empty() ? count == 0 : count > 0 && at + 1 == index_.turns_.size();
    return !reader_.bad() && all;
  }

  bool Terms() {
    const uint64_t count = reader_.NextUpTo(kTermKeyMask);
    index_.loaded_.reserve(Likely(count, kTermBytesMin));
    TermKey key = 0;
    for (uint64_t i = 0; i < count && !reader_.bad(); ++i) {
      const uint64_t packed = reader_.NextUpTo(kTermSizes * kTermKeyMask + kTermSizes - 1);
      const uint64_t delta = packed / kTermSizes;
      key += delta;
      if (key > kTermKeyMask || (i > 0 && delta == 0)) return false;
      index_.loaded_.push_back({key, {}});
      Postings& postings = index_.loaded_.back().postings;
      switch (packed % kTermSizes) {
        case static_cast<uint64_t>(TermSize::kOne):
          if (!Entries(1, postings)) return false;
          break;
        case static_cast<uint64_t>(TermSize::kFew): {
          const uint64_t entries = reader_.NextUpTo(kManyEntries - 1);
          if (entries < 2 || !Entries(entries, postings)) return false;
          break;
        }
        case static_cast<uint64_t>(TermSize::kMany):
          if (!ManyEntries(postings)) return false;
          break;
        default:
          return false;
      }
    }
    index_.terms_ = index_.loaded_.size();
    return !reader_.bad();
  }

  // Postings stay where they are; they are only checked and counted.
  bool Entries(uint64_t entries, Postings& postings) {
    const size_t begin = reader_.at();
    uint64_t next = 0;
    for (uint64_t entry = 0; entry < entries && !reader_.bad(); ++entry) {
      const uint64_t packed = reader_.Next();
      const uint64_t delta = packed >> kFormBits;
      TermCounts counts;
      if (delta == 0 || delta > index_.passages_.size() ||
          !CountsOf(packed & kFormMask, reader_, counts)) {
        return false;
      }
      next += delta;
      if (next > index_.passages_.size()) return false;
      postings.df += counts.user + counts.asked + counts.answer > 0 ? 1 : 0;
      postings.df_user += counts.user + counts.asked > 0 ? 1 : 0;
    }
    postings.bytes = reader_.Since(begin);
    postings.all = static_cast<uint32_t>(entries);
    postings.last_passage = static_cast<uint32_t>(next - 1);
    return !reader_.bad();
  }

  // What is known of them is stored; whoever reads them keeps to it (PostingReader).
  bool ManyEntries(Postings& postings) {
    const uint64_t passages = index_.passages_.size();
    const uint64_t entries = reader_.NextUpTo(passages);
    if (entries < kManyEntries) return false;
    const uint64_t tool_only = reader_.NextUpTo(entries);
    const uint64_t answer_only = reader_.NextUpTo(entries - tool_only);
    const uint64_t last = reader_.NextUpTo(passages - 1);
    const uint64_t bytes = reader_.Next();
    if (last + 1 < entries || bytes < entries) return false;
    postings.bytes = reader_.Bytes(bytes);
    postings.all = static_cast<uint32_t>(entries);
    postings.df = static_cast<uint32_t>(entries - tool_only);
    postings.df_user = static_cast<uint32_t>(entries - tool_only - answer_only);
    postings.last_passage = static_cast<uint32_t>(last);
    return !reader_.bad();
  }

  VarintReader reader_;
  RecallIndex index_;
};

Result<RecallIndex> RecallIndex::Decode(std::span<const std::byte> bytes) {
  const auto copy = std::make_shared<std::byte[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  return Decode(copy, {copy.get(), bytes.size()});
}

Result<RecallIndex> RecallIndex::Decode(std::shared_ptr<const std::byte[]> owner,
                                        std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes + kChecksumBytes) return Damaged("cut short");
  if (!StartsWith(bytes, kMagic)) return Damaged("not an index");
  const auto version = GetLe<uint16_t>(bytes, 8);
  const auto analyser = GetLe<uint32_t>(bytes, 12);
  if (version != kRecallIndexVersion || analyser != kAnalyserVersion) {
    return Error(Code::kInvalid, "recall index: version " + std::to_string(version) + "." +
                                     std::to_string(analyser) + ", this build has " +
                                     std::to_string(kRecallIndexVersion) + "." +
                                     std::to_string(kAnalyserVersion));
  }
  const size_t body = bytes.size() - kHeaderBytes - kChecksumBytes;
  if (GetLe<uint64_t>(bytes, 16) != body) return Damaged("length");
  if (GetLe<uint64_t>(bytes, kHeaderBytes + body) != ChecksumOf(bytes.first(kHeaderBytes + body)))
    return Damaged("checksum");
  if (!AllZero(bytes.subspan(10, 2)) || !AllZero(bytes.subspan(24, 8))) return Damaged("reserved");
  const auto* text = reinterpret_cast<const char*>(bytes.data() + kHeaderBytes);
  return IndexReader(std::move(owner), {text, body}).Read();
}

}  // namespace tenuto

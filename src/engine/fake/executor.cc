#include "engine/fake/executor.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace tenuto {
namespace {

constexpr uint32_t kMagic = 0x4b564654;  // "TFVK"
constexpr size_t kHeaderBytes = 16;      // magic, bytes per token, begin, end: u32 each
constexpr size_t kCellBytes = 16;        // token u32, position u32, hash u64
constexpr float kBanned = -30.0F;
constexpr TokenId kTwoByteLead = 0xC3;  // with 0xA0..0xBF after it: a letter with an accent

struct SpecialToken {
  TokenId id;
  std::string_view text;
};
constexpr std::array<SpecialToken, 3> kSpecial = {{
    {FakeExecutor::kEndOfText, "<|endoftext|>"},
    {FakeExecutor::kMessageStart, "<|im_start|>"},
    {FakeExecutor::kMessageEnd, "<|im_end|>"},
}};

// splitmix64's finalizer: every bit of the input reaches every bit of the output.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

uint64_t MixIn(uint64_t hash, uint64_t value) {
  return Mix(hash ^ Mix(value));
}

template <typename T>
void Put(std::vector<std::byte>& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<std::byte>((static_cast<uint64_t>(value) >> (8 * i)) & 0xff));
  }
}

uint64_t Get(std::span<const std::byte> bytes, size_t offset, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    value |= static_cast<uint64_t>(std::to_integer<uint8_t>(bytes[offset + i])) << (8 * i);
  }
  return value;
}

std::byte Filling(uint64_t hash, size_t index) {
  return static_cast<std::byte>((hash >> (8 * (index % 8))) & 0xff);
}

int64_t MibCost(size_t bytes, int64_t mib_ns) {
  return static_cast<int64_t>(static_cast<double>(bytes) / static_cast<double>(kMiB) *
                              static_cast<double>(mib_ns));
}

// The letter that text goes on with: words of a few letters, now and then one with an accent.
TokenId DrawLetter(uint64_t draw, TokenId last) {
  constexpr std::string_view kLetters = "eeeeaaaiiooutttnnnsssrrhhlldcmfpgwybvk";
  if (last == kTwoByteLead) return static_cast<TokenId>(0xA0 + draw % 32);
  const bool in_word = (last >= 'a' && last <= 'z') || (last >= 0xA0 && last <= 0xBF);
  if (in_word && draw % 5 == 0) return ' ';
  if (in_word && draw % 41 == 0) return kTwoByteLead;
  return static_cast<TokenId>(kLetters[(draw >> 8) % kLetters.size()]);
}

}  // namespace

bool FakeExecutor::Fault::Hit() {
  return countdown > 0 && --countdown == 0;
}

FakeExecutor::FakeExecutor(FakeExecutorSettings settings)
    : settings_(std::move(settings)),
      info_(MakeInfo()),
      ledger_(settings_.cells, settings_.sequences),
      cells_(static_cast<size_t>(settings_.cells)) {
  TENUTO_CHECK(settings_.kv_bytes_per_token >= kCellBytes);
  TENUTO_CHECK(settings_.window > 0 && settings_.cells > 0 && settings_.sequences > 0);
  TENUTO_CHECK(settings_.sequences <= kSequencesMax);
  TENUTO_CHECK(settings_.batch_tokens_max > 0 && settings_.batch_outputs_max > 0);
  TENUTO_CHECK(settings_.answer_tokens_min > 0);
  TENUTO_CHECK(settings_.answer_tokens_max >= settings_.answer_tokens_min);
}

EngineInfo FakeExecutor::MakeInfo() const {
  EngineInfo info;
  info.model_name = "fake-" + std::to_string(settings_.model_seed);
  info.model_path = "(none)";
  info.model_parameters = 1;
  info.model_bytes = 0;
  info.vocabulary_size = kVocabulary;
  info.model_window = settings_.window;
  info.cells = settings_.cells;
  info.sequences = settings_.sequences;
  info.kv_bytes_per_token = settings_.kv_bytes_per_token;
  info.codec = PieceCodec::kFake;
  info.range_export = settings_.range_export;
  info.default_system = settings_.default_system;

  Sha256 vocabulary;
  for (TokenId token = 0; token < kVocabulary; ++token) {
    const std::string text = TokenText(token, true);
    info.token_bytes_max = std::max(info.token_bytes_max, static_cast<int32_t>(text.size()));
    vocabulary.UpdateField(text);
    vocabulary.UpdateU64(TokenText(token, false).empty() ? 1 : 0);
  }
  info.vocabulary = vocabulary.Finish();

  info.fingerprint_text = "codec=fake/1\nmodel_seed=" + std::to_string(settings_.model_seed) +
                          "\nvocabulary=" + info.vocabulary.Hex() +
                          "\nkv_bytes_per_token=" + std::to_string(settings_.kv_bytes_per_token) +
                          "\nanswer_tokens=" + std::to_string(settings_.answer_tokens_min) + ".." +
                          std::to_string(settings_.answer_tokens_max) +
                          "\nconfig=" + settings_.config + "\n";
  info.fingerprint = Sha256Of(info.fingerprint_text);
  return info;
}

std::vector<TokenId> FakeExecutor::HeldTokens(SeqId seq) const {
  std::vector<TokenId> tokens;
  for (TokenPos pos = 0; pos < ledger_.length(seq); ++pos)
    tokens.push_back(At(seq, pos).token);
  return tokens;
}

Result<std::vector<TokenId>> FakeExecutor::Tokenize(std::string_view text, bool /*add_special*/,
                                                    bool parse_special) const {
  std::vector<TokenId> tokens;
  tokens.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto* special = std::find_if(
        kSpecial.begin(), kSpecial.end(),
        [&](const SpecialToken& t) { return parse_special && text.substr(i).starts_with(t.text); });
    if (special != kSpecial.end()) {
      tokens.push_back(special->id);
      i += special->text.size();
    } else {
      tokens.push_back(static_cast<uint8_t>(text[i++]));
    }
  }
  return tokens;
}

std::string FakeExecutor::TokenText(TokenId token, bool special) const {
  if (settings_.on_token_text) settings_.on_token_text();
  if (token >= 0 && token < 256) return std::string(1, static_cast<char>(token));
  for (const SpecialToken& t : kSpecial) {
    if (t.id == token && special) return std::string(t.text);
  }
  return "";
}

bool FakeExecutor::IsEnd(TokenId token) const {
  return token == kEndOfText || token == kMessageEnd;
}

Result<std::string> FakeExecutor::RenderChat(std::span<const ChatMessage> messages,
                                             bool open_answer) const {
  std::string text;
  for (const ChatMessage& message : messages) {
    if (message.role != "system" && message.role != "user" && message.role != "assistant") {
      return Error(Code::kInvalid, "the chat template has no role '" + message.role + "'");
    }
    text += "<|im_start|>" + message.role + "\n" + message.content + "<|im_end|>\n";
  }
  if (open_answer) text += "<|im_start|>assistant\n";
  return text;
}

Status FakeExecutor::CheckSequence(SeqId seq) const {
  if (ledger_.HasSequence(seq)) return Ok();
  return Error(Code::kInvalid, "no sequence " + std::to_string(seq.value));
}

Status FakeExecutor::CheckBatch(std::span<const ForwardToken> batch) const {
  if (batch.empty() || batch.size() > static_cast<size_t>(settings_.batch_tokens_max)) {
    return Error(Code::kInvalid, "a batch of " + std::to_string(batch.size()) + " tokens");
  }
  std::vector<TokenPos> next(static_cast<size_t>(settings_.sequences), -1);
  int32_t outputs = 0;
  for (const ForwardToken& token : batch) {
    TENUTO_TRY(CheckSequence(token.seq));
    TokenPos& pos = next[static_cast<size_t>(token.seq.value)];
    if (pos < 0) pos = ledger_.length(token.seq);
    if (token.pos != pos) {
      return Error(Code::kInvalid, "position " + std::to_string(token.pos) + " where " +
                                       std::to_string(pos) + " comes next");
    }
    ++pos;
    if (token.token < 0 || token.token >= kVocabulary) {
      return Error(Code::kInvalid, "no token " + std::to_string(token.token));
    }
    outputs += token.output ? 1 : 0;
  }
  if (outputs > settings_.batch_outputs_max) {
    return Error(Code::kInvalid, "a batch with " + std::to_string(outputs) + " outputs");
  }
  return Ok();
}

const FakeExecutor::Cell& FakeExecutor::At(SeqId seq, TokenPos pos) const {
  return cells_[static_cast<size_t>(ledger_.cell(seq, pos))];
}

void FakeExecutor::AppendToken(const ForwardToken& token) {
  const uint64_t before =
      token.pos == 0 ? Mix(settings_.model_seed) : At(token.seq, token.pos - 1).hash;
  const uint64_t both =
      (static_cast<uint64_t>(token.token) << 32) | static_cast<uint32_t>(token.pos);
  cells_[static_cast<size_t>(ledger_.Append(token.seq))] = {token.token, token.pos,
                                                            MixIn(before, both)};
}

// The "attention": every cell of the sequence counts, so that one foreign cell anywhere changes
// what follows.
void FakeExecutor::ComputeLogits(SeqId seq) {
  uint64_t hash = Mix(settings_.model_seed);
  const TokenPos length = ledger_.length(seq);
  TokenPos opened = -1;  // where the message at hand starts
  for (TokenPos pos = 0; pos < length; ++pos) {
    const Cell& cell = At(seq, pos);
    hash = MixIn(hash, cell.hash ^ (static_cast<uint64_t>(cell.token) << 40) ^
                           static_cast<uint64_t>(cell.pos));
    if (cell.token == kMessageStart) opened = pos;
  }
  bool end = Mix(hash ^ 1) % 40 == 0;  // plain text, no template
  const TokenId last = At(seq, length - 1).token;
  if (opened >= 0) {
    constexpr TokenPos kOpeningTokens = 11;  // "<|im_start|>assistant\n"
    const auto spread = static_cast<uint64_t>(int64_t{settings_.answer_tokens_max} -
                                              settings_.answer_tokens_min + 1);
    const auto drawn = static_cast<TokenPos>(At(seq, opened).hash % spread);
    end = length - opened - kOpeningTokens >= settings_.answer_tokens_min + drawn;
  }
  if (last == kTwoByteLead) end = false;  // half a character

  logits_.resize((outputs_ + 1) * kVocabulary, kBanned);
  const std::span<float> row = std::span(logits_).subspan(outputs_ * kVocabulary, kVocabulary);
  std::fill(row.begin(), row.end(), kBanned);
  ++outputs_;
  if (last == kTwoByteLead) {  // nothing but the other half
    row[static_cast<size_t>(DrawLetter(hash, last))] = 8.0F;
    return;
  }
  for (size_t letter = 'a'; letter <= 'z'; ++letter) {
    row[letter] = static_cast<float>(Mix(hash ^ letter) % 4096) / 1024.0F;
  }
  row[' '] = static_cast<float>(Mix(hash ^ ' ') % 4096) / 1024.0F;
  row[static_cast<size_t>(DrawLetter(Mix(hash ^ 2), last))] = 6.0F;
  if (end) row[kMessageEnd] = 16.0F;
}

void FakeExecutor::Spend(int64_t ns) const {
  if (settings_.spend && ns > 0) settings_.spend(ns);
}

Status FakeExecutor::Forward(std::span<const ForwardToken> batch) {
  TENUTO_TRY(CheckBatch(batch));
  ++forward_calls_;
  const bool fail = fail_forward_.Hit();
  if ((fail && fail_forward_.code == Code::kExhausted) ||
      batch.size() > static_cast<size_t>(ledger_.free())) {
    return Error(Code::kExhausted, "no free KV cells for " + std::to_string(batch.size()) +
                                       " tokens (" + std::to_string(ledger_.free()) + " free)");
  }
  outputs_ = 0;
  int64_t ns = settings_.forward_ns;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (fail && i >= batch.size() / 2) return Error(fail_forward_.code, "a fault was asked for");
    AppendToken(batch[i]);
    if (batch[i].output) ComputeLogits(batch[i].seq);
    ns += batch[i].output ? settings_.decode_token_ns : settings_.prefill_token_ns;
  }
  forward_tokens_ += batch.size();
  Spend(ns);
  return Ok();
}

std::span<const float> FakeExecutor::Logits(size_t output_index) const {
  TENUTO_CHECK(output_index < outputs_);
  return std::span(logits_).subspan(output_index * kVocabulary, kVocabulary);
}

Status FakeExecutor::Truncate(SeqId seq, TokenPos end) {
  TENUTO_TRY(CheckSequence(seq));
  if (end < 0) return Error(Code::kInvalid, "a sequence can't end at " + std::to_string(end));
  if (!settings_.range_export && end > 0 && end < ledger_.length(seq)) {
    return Error(Code::kInvalid,
                 "this model's state can't go back to position " + std::to_string(end));
  }
  ledger_.Truncate(seq, end);
  return Ok();
}

Status FakeExecutor::CopyPrefix(SeqId from, SeqId to, TokenPos end) {
  TENUTO_TRY(CheckSequence(from));
  TENUTO_TRY(CheckSequence(to));
  if (ledger_.length(to) != 0) return Error(Code::kInvalid, "the target sequence is not empty");
  if (end < 0 || end > ledger_.length(from)) {
    return Error(Code::kInvalid, "the source sequence does not reach " + std::to_string(end));
  }
  if (!settings_.range_export && end != ledger_.length(from)) {
    return Error(Code::kInvalid, "this model's state can't be copied in part");
  }
  ledger_.Share(from, to, end);
  return Ok();
}

Status FakeExecutor::Export(SeqId seq, TokenRange range, std::vector<std::byte>& out) {
  TENUTO_TRY(CheckSequence(seq));
  out.clear();
  if (!settings_.range_export) return Error(Code::kInvalid, "this model has no range export");
  if (range.begin < 0 || range.size() <= 0 || range.end > ledger_.length(seq)) {
    return Error(Code::kInvalid, "the sequence does not hold the range");
  }
  if (fail_export_.Hit()) return Error(fail_export_.code, "a fault was asked for");
  out.reserve(kHeaderBytes + static_cast<size_t>(range.size()) * settings_.kv_bytes_per_token);
  Put(out, kMagic);
  Put(out, static_cast<uint32_t>(settings_.kv_bytes_per_token));
  Put(out, static_cast<uint32_t>(range.begin));
  Put(out, static_cast<uint32_t>(range.end));
  for (TokenPos pos = range.begin; pos < range.end; ++pos) {
    const Cell& cell = At(seq, pos);
    Put(out, static_cast<uint32_t>(cell.token));
    Put(out, static_cast<uint32_t>(cell.pos));
    Put(out, cell.hash);
    for (size_t i = kCellBytes; i < settings_.kv_bytes_per_token; ++i) {
      out.push_back(Filling(cell.hash, i));
    }
  }
  Spend(MibCost(out.size(), settings_.copy_mib_ns));
  return Ok();
}

Status FakeExecutor::Import(SeqId seq, TokenRange range, std::span<const std::byte> bytes) {
  TENUTO_TRY(CheckSequence(seq));
  if (!settings_.range_export) return Error(Code::kInvalid, "this model has no range import");
  if (range.begin != ledger_.length(seq) || range.size() <= 0) {
    return Error(Code::kInvalid, "the range does not follow what the sequence holds");
  }
  if (fail_import_.Hit()) return Error(fail_import_.code, "a fault was asked for");
  const auto count = static_cast<size_t>(range.size());
  const size_t stride = settings_.kv_bytes_per_token;
  if (bytes.size() != kHeaderBytes + count * stride || Get(bytes, 0, 4) != kMagic ||
      Get(bytes, 4, 4) != stride || Get(bytes, 8, 4) != static_cast<uint32_t>(range.begin) ||
      Get(bytes, 12, 4) != static_cast<uint32_t>(range.end)) {
    return Error(Code::kCorrupt, "not KV of this range and executor");
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t at = kHeaderBytes + i * stride;
    if (Get(bytes, at, 4) >= kVocabulary ||
        Get(bytes, at + 4, 4) != static_cast<size_t>(range.begin) + i) {
      return Error(Code::kCorrupt, "a cell has another position or no token");
    }
    for (size_t b = kCellBytes; b < stride; ++b) {
      if (bytes[at + b] != Filling(Get(bytes, at + 8, 8), b)) {
        return Error(Code::kCorrupt, "a cell's filling is damaged");
      }
    }
  }
  if (range.size() > ledger_.free())
    return Error(Code::kExhausted, "no free KV cells for the import");
  for (size_t i = 0; i < count; ++i) {
    const size_t at = kHeaderBytes + i * stride;
    cells_[static_cast<size_t>(ledger_.Append(seq))] = {
        static_cast<TokenId>(Get(bytes, at, 4)), static_cast<TokenPos>(Get(bytes, at + 4, 4)),
        Get(bytes, at + 8, 8)};
  }
  Spend(MibCost(bytes.size(), settings_.copy_mib_ns));
  return Ok();
}

}  // namespace tenuto

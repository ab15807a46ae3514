#include "engine/embedded/llama/executor.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/embedded/llama/parts.h"

namespace tenuto {
namespace {

Error NoCells(size_t tokens, int32_t free) {
  return {Code::kExhausted, "no free KV cells for " + std::to_string(tokens) + " tokens (" +
                                std::to_string(free) + " free)"};
}

}  // namespace

Status DecodeStatus(int32_t code, size_t tokens, int32_t cells_free) {
  if (code == 0) return Ok();
  if (code == 1) return NoCells(tokens, cells_free);
  if (code == 2) return Error(Code::kUnavailable, "the forward pass was aborted");
  return Error(Code::kIo, "libllama's forward pass failed with code " + std::to_string(code));
}

void BatchArrays::Resize(size_t size) {
  tokens.resize(size);
  positions.resize(size);
  sequence_counts.resize(size, 1);
  sequences.resize(size);
  sequence_lists.resize(size);
  outputs.resize(size);
}

llama_batch BatchArrays::View() {
  for (size_t i = 0; i < sequences.size(); ++i)
    sequence_lists[i] = &sequences[i];
  return {static_cast<int32_t>(tokens.size()),
          tokens.data(),
          nullptr,
          positions.data(),
          sequence_counts.data(),
          sequence_lists.data(),
          outputs.data()};
}

LlamaExecutor::LlamaExecutor(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
LlamaExecutor::~LlamaExecutor() = default;

const EngineInfo& LlamaExecutor::info() const {
  return parts_->info;
}

int32_t LlamaExecutor::batch_tokens_max() const {
  return parts_->settings.batch_tokens_max;
}

int32_t LlamaExecutor::batch_outputs_max() const {
  return parts_->settings.outputs_max;
}

int32_t LlamaExecutor::cells_free() const {
  return parts_->ledger.free();
}

Result<std::vector<TokenId>> LlamaExecutor::Tokenize(std::string_view text, bool add_special,
                                                     bool parse_special) const {
  if (text.size() > INT32_MAX / 4) return Error(Code::kInvalid, "the text is too long to tokenize");
  // Few tokens are shorter than two bytes in ordinary text; a second call is made where that guess
  // is too low.
  std::vector<TokenId> tokens(text.size() / 2 + 16);
  try {
    for (int attempt = 0; attempt < 2; ++attempt) {
      const int32_t count = llama_tokenize(
          parts_->vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
          static_cast<int32_t>(tokens.size()), add_special, parse_special);
      if (count == INT32_MIN) return Error(Code::kInvalid, "the text is too long to tokenize");
      tokens.resize(static_cast<size_t>(count < 0 ? -count : count));
      if (count >= 0) return tokens;
    }
  } catch (const std::exception& thrown) {  // a vocabulary may throw out of the C API
    return Error(Code::kInvalid, std::string("the text can't be tokenized: ") + thrown.what());
  }
  return Error(Code::kInvalid, "the text can't be tokenized");
}

std::string LlamaExecutor::TokenText(TokenId token, bool special) const {
  if (token < 0 || token >= parts_->info.vocabulary_size) return "";
  std::string text(32, '\0');
  for (int attempt = 0; attempt < 2; ++attempt) {
    const int32_t size = llama_token_to_piece(parts_->vocab, token, text.data(),
                                              static_cast<int32_t>(text.size()), 0, special);
    text.resize(static_cast<size_t>(size < 0 ? -size : size));
    if (size >= 0) return text;
  }
  return "";
}

bool LlamaExecutor::IsEnd(TokenId token) const {
  return token >= 0 && token < parts_->info.vocabulary_size &&
         llama_vocab_is_eog(parts_->vocab, token);
}

Result<std::string> LlamaExecutor::RenderChat(std::span<const ChatMessage> messages,
                                              bool open_answer) const {
  return parts_->chat_template.Render(messages, open_answer);
}

Status LlamaExecutor::CheckSequence(SeqId seq) const {
  if (seq.value >= 0 && seq.value < parts_->info.sequences) return Ok();
  return Error(Code::kInvalid, "no sequence " + std::to_string(seq.value));
}

Status LlamaExecutor::CheckBatch(std::span<const ForwardToken> batch) const {
  if (batch.empty() || batch.size() > static_cast<size_t>(batch_tokens_max())) {
    return Error(Code::kInvalid, "a batch of " + std::to_string(batch.size()) + " tokens");
  }
  std::vector<TokenPos> next(static_cast<size_t>(parts_->info.sequences), -1);
  int32_t outputs = 0;
  for (const ForwardToken& token : batch) {
    TENUTO_TRY(CheckSequence(token.seq));
    TokenPos& pos = next[static_cast<size_t>(token.seq.value)];
    if (pos < 0) pos = parts_->ledger.length(token.seq);
    if (token.pos != pos) {
      return Error(Code::kInvalid, "position " + std::to_string(token.pos) + " where " +
                                       std::to_string(pos) + " comes next");
    }
    ++pos;
    if (token.token < 0 || token.token >= parts_->info.vocabulary_size) {
      return Error(Code::kInvalid, "no token " + std::to_string(token.token));
    }
    outputs += token.output ? 1 : 0;
  }
  if (outputs > batch_outputs_max()) {
    return Error(Code::kInvalid, "a batch with " + std::to_string(outputs) + " outputs");
  }
  return Ok();
}

Status LlamaExecutor::Forward(std::span<const ForwardToken> batch) {
  TENUTO_TRY(CheckBatch(batch));
  Parts& parts = *parts_;
  const int32_t free = parts.ledger.free();
  if (batch.size() > static_cast<size_t>(free)) return NoCells(batch.size(), free);
  parts.output_rows.clear();
  parts.batch.Resize(batch.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    parts.batch.tokens[i] = batch[i].token;
    parts.batch.positions[i] = batch[i].pos;
    parts.batch.sequences[i] = batch[i].seq.value;
    parts.batch.outputs[i] = batch[i].output ? 1 : 0;
  }
  const int32_t code = llama_decode(parts.context.get(), parts.batch.View());
  TENUTO_TRY(DecodeStatus(code, batch.size(), free));
  for (size_t i = 0; i < batch.size(); ++i) {
    parts.ledger.Append(batch[i].seq);
    if (batch[i].output) parts.output_rows.push_back(static_cast<int32_t>(i));
  }
  return Ok();
}

std::span<const float> LlamaExecutor::Logits(size_t output_index) const {
  TENUTO_CHECK(output_index < parts_->output_rows.size());
  const float* logits =
      llama_get_logits_ith(parts_->context.get(), parts_->output_rows[output_index]);
  TENUTO_CHECK(logits != nullptr);
  return {logits, static_cast<size_t>(parts_->info.vocabulary_size)};
}

// Whether the next token may stand at `end` after positions >= end are gone. A sliding-window cache
// says yes to every removal, even when nothing of the window is left, so what it still holds is
// asked for.
Status LlamaExecutor::CanEndAt(SeqId seq, TokenPos end) const {
  const Error cannot(Code::kInvalid,
                     "this model's state can't go back to position " + std::to_string(end));
  if (parts_->sliding_window > 0) {
    const TokenPos needed = std::max(0, end - parts_->sliding_window + 1);
    const llama_pos held = llama_memory_seq_pos_min(parts_->memory, seq.value);
    if (held < 0 || held > needed) return cannot;
  }
  return Ok();
}

Status LlamaExecutor::Truncate(SeqId seq, TokenPos end) {
  TENUTO_TRY(CheckSequence(seq));
  if (end < 0) return Error(Code::kInvalid, "a sequence can't end at " + std::to_string(end));
  if (end == 0) {
    llama_memory_seq_rm(parts_->memory, seq.value, -1, -1);
  } else if (end < parts_->ledger.length(seq)) {
    TENUTO_TRY(CanEndAt(seq, end));
    if (!llama_memory_seq_rm(parts_->memory, seq.value, end,
                             -1)) {  // recurrent: nothing was changed
      return Error(Code::kInvalid,
                   "this model's state can't go back to position " + std::to_string(end));
    }
  }
  parts_->ledger.Truncate(seq, end);
  return Ok();
}

Status LlamaExecutor::CopyPrefix(SeqId from, SeqId to, TokenPos end) {
  TENUTO_TRY(CheckSequence(from));
  TENUTO_TRY(CheckSequence(to));
  if (parts_->ledger.length(to) != 0)
    return Error(Code::kInvalid, "the target sequence is not empty");
  if (end < 0 || end > parts_->ledger.length(from)) {
    return Error(Code::kInvalid, "the source sequence does not reach " + std::to_string(end));
  }
  if (end == 0) return Ok();
  if (end < parts_->ledger.length(from)) {
    // A recurrent state is copied whole, whatever range is asked for.
    if (parts_->recurrent)
      return Error(Code::kInvalid, "this model's state can't be copied in part");
    TENUTO_TRY(CanEndAt(from, end));
  }
  llama_memory_seq_cp(parts_->memory, from.value, to.value, 0, end);
  parts_->ledger.Share(from, to, end);
  return Ok();
}

Status LlamaExecutor::Export(SeqId seq, TokenRange range, std::vector<std::byte>& out) {
  out.clear();
  TENUTO_TRY(CheckSequence(seq));
  Parts& parts = *parts_;
  if (!parts.info.range_export)
    return Error(Code::kInvalid, "this model's KV can't be exported by ranges");
  if (range.begin < 0 || range.size() <= 0 || range.end > parts.ledger.length(seq)) {
    return Error(Code::kInvalid, "the sequence does not hold the range");
  }
  llama_memory_seq_rm(parts.memory, parts.scratch, -1, -1);
  llama_memory_seq_cp(parts.memory, seq.value, parts.scratch, range.begin, range.end);
  out.resize(parts.layout.BytesFor(range.size()));
  const size_t written = llama_state_seq_get_data(
      parts.context.get(), reinterpret_cast<uint8_t*>(out.data()), out.size(), parts.scratch);
  llama_memory_seq_rm(parts.memory, parts.scratch, -1, -1);
  if (written != out.size()) {
    out.clear();
    return Error(Code::kIo, "libllama wrote " + std::to_string(written) +
                                " bytes of KV where others were expected");
  }
  return CanonicalizeState(parts.layout, range, out);
}

Status LlamaExecutor::Import(SeqId seq, TokenRange range, std::span<const std::byte> bytes) {
  TENUTO_TRY(CheckSequence(seq));
  Parts& parts = *parts_;
  if (!parts.info.range_export)
    return Error(Code::kInvalid, "this model's KV can't be imported by ranges");
  if (range.begin != parts.ledger.length(seq) || range.size() <= 0) {
    return Error(Code::kInvalid, "the range does not follow what the sequence holds");
  }
  TENUTO_TRY(CheckState(parts.layout, range, bytes));
  if (range.size() > parts.ledger.free())
    return NoCells(static_cast<size_t>(range.size()), parts.ledger.free());
  return LoadState(seq, range, bytes);
}

// Whether the scratch sequence now holds exactly `range`.
bool LlamaExecutor::ReadIntoScratch(TokenRange range, std::span<const std::byte> bytes) {
  Parts& parts = *parts_;
  // A state is always loaded into an empty sequence: loading wipes its destination, or leaves an
  // old one in place when the state is empty.
  llama_memory_seq_rm(parts.memory, parts.scratch, -1, -1);
  const size_t read =
      llama_state_seq_set_data(parts.context.get(), reinterpret_cast<const uint8_t*>(bytes.data()),
                               bytes.size(), parts.scratch);
  return read == bytes.size() &&
         llama_memory_seq_pos_min(parts.memory, parts.scratch) == range.begin &&
         llama_memory_seq_pos_max(parts.memory, parts.scratch) == range.end - 1;
}

// REQUIRES: cells for `range` are free. CheckState has passed the bytes, so libllama takes them:
// the rest is for the day on which it does not.
Status LlamaExecutor::LoadState(SeqId seq, TokenRange range, std::span<const std::byte> bytes) {
  Parts& parts = *parts_;
  const bool complete = ReadIntoScratch(range, bytes);
  if (complete) llama_memory_seq_cp(parts.memory, parts.scratch, seq.value, range.begin, range.end);
  llama_memory_seq_rm(parts.memory, parts.scratch, -1, -1);
  if (!complete) {
    ClearFreeCells(seq);
    return Error(Code::kCorrupt,
                 "libllama refused a KV state of " + std::to_string(bytes.size()) + " bytes");
  }
  for (TokenPos pos = range.begin; pos < range.end; ++pos)
    parts.ledger.Append(seq);
  return Ok();
}

// Cells of a state that was half read are free but hold any bytes. Attention reads free cells too
// and weighs them with zero, and zero times NaN is NaN: in every sequence's answers. Where others
// are live, the only way to write cells is a state: zeroes for each free one, behind `seq`.
void LlamaExecutor::ClearFreeCells(SeqId seq) {
  Parts& parts = *parts_;
  if (parts.ledger.free() == parts.info.cells) return llama_memory_clear(parts.memory, true);
  constexpr TokenPos kChunk = 256;  // bounds the memory that this takes
  const TokenPos begin = parts.ledger.length(seq);
  const TokenPos end = begin + parts.ledger.free();
  TokenPos at = begin;
  while (at < end) {
    const TokenRange range{at, std::min(at + kChunk, end)};
    if (!ReadIntoScratch(range, ZeroState(parts.layout, range))) break;
    llama_memory_seq_cp(parts.memory, parts.scratch, seq.value, range.begin, range.end);
    at = range.end;
  }
  llama_memory_seq_rm(parts.memory, parts.scratch, -1, -1);
  llama_memory_seq_rm(parts.memory, seq.value, begin, -1);
  if (at < end) Log(LogLevel::kError, "llama.cells_not_cleared", {{"cells", int64_t{end - at}}});
}

}  // namespace tenuto

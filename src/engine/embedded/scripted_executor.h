// An executor with a vocabulary and an answer that the test wrote down. Tests only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/cell_ledger.h"
#include "engine/executor.h"

namespace tenuto {

// The token after position p is script[p] (the last of the script for ever after), whatever came
// before. Tokens whose text is "<end>" end a turn and have no visible text.
class ScriptedExecutor : public Executor {
 public:
  ScriptedExecutor(std::vector<std::string> vocabulary, std::vector<TokenId> answer)
      : script(std::move(answer)), vocabulary_(std::move(vocabulary)), ledger_(1024, 8) {
    info_.vocabulary_size = static_cast<int32_t>(vocabulary_.size());
    info_.model_window = 512;
    info_.cells = 1024;
    info_.sequences = 8;
    info_.kv_bytes_per_token = 4;
  }

  std::vector<TokenId> script;
  bool tokenize_adds_space = false;  // as some tokenizers do at the start of a text
  bool rewinds = true;               // false: Truncate works at 0 only

  const EngineInfo& info() const override { return info_; }
  int32_t batch_tokens_max() const override { return 64; }
  int32_t batch_outputs_max() const override { return 8; }
  Result<std::vector<TokenId>> Tokenize(std::string_view text, bool /*add_special*/,
                                        bool /*parse_special*/) const override {
    std::string rest = tokenize_adds_space ? " " + std::string(text) : std::string(text);
    std::vector<TokenId> tokens;
    while (!rest.empty()) {
      size_t best = vocabulary_.size();
      for (size_t i = 0; i < vocabulary_.size(); ++i) {
        const std::string& piece = vocabulary_[i];
        if (piece.empty() || !rest.starts_with(piece)) continue;
        if (best == vocabulary_.size() || piece.size() > vocabulary_[best].size()) best = i;
      }
      if (best == vocabulary_.size()) return Error(Code::kInvalid, "no piece fits " + rest);
      tokens.push_back(static_cast<TokenId>(best));
      rest.erase(0, vocabulary_[best].size());
    }
    return tokens;
  }
  std::string TokenText(TokenId token, bool special) const override {
    const std::string& text = vocabulary_[static_cast<size_t>(token)];
    return text == "<end>" && !special ? "" : text;
  }
  bool IsEnd(TokenId token) const override {
    return vocabulary_[static_cast<size_t>(token)] == "<end>";
  }
  Result<std::string> RenderChat(std::span<const ChatMessage> /*messages*/,
                                 bool /*open_answer*/) const override {
    return std::string();
  }

  Status Forward(std::span<const ForwardToken> batch) override {
    if (batch.size() > static_cast<size_t>(ledger_.free())) {
      return Error(Code::kExhausted, "no cells");
    }
    logits_.clear();
    for (const ForwardToken& token : batch) {
      if (token.pos != ledger_.length(token.seq)) return Error(Code::kInvalid, "wrong position");
      (void)ledger_.Append(token.seq);
      if (!token.output) continue;
      std::vector<float> row(vocabulary_.size(), 0.0F);
      const size_t next = std::min(static_cast<size_t>(token.pos), script.size() - 1);
      row[static_cast<size_t>(script[next])] = 10.0F;
      logits_.push_back(std::move(row));
    }
    return Ok();
  }
  std::span<const float> Logits(size_t output_index) const override {
    return logits_[output_index];
  }
  Status Truncate(SeqId seq, TokenPos end) override {
    if (!rewinds && end > 0) return Error(Code::kInvalid, "can't go back");
    ledger_.Truncate(seq, end);
    return Ok();
  }
  Status CopyPrefix(SeqId from, SeqId to, TokenPos end) override {
    ledger_.Share(from, to, end);
    return Ok();
  }
  Status Export(SeqId /*seq*/, TokenRange range, std::vector<std::byte>& out) override {
    out.assign(static_cast<size_t>(range.size()) * export_bytes_per_token, std::byte{7});
    return Ok();
  }
  Status Import(SeqId /*seq*/, TokenRange /*range*/,
                std::span<const std::byte> /*bytes*/) override {
    return Error(Code::kCorrupt, "refused");
  }
  int32_t cells_free() const override { return ledger_.free(); }
  TokenPos length(SeqId seq) const { return ledger_.length(seq); }

  size_t export_bytes_per_token = 4;

 private:
  std::vector<std::string> vocabulary_;
  EngineInfo info_;
  CellLedger ledger_;
  std::vector<std::vector<float>> logits_;
};

}  // namespace tenuto

// The answer of one run as it grows: turns its tokens into visible text and says which of them are
// visible. Holds back unfinished characters and whatever may be the beginning of a stop string;
// cuts at the stop string that is complete first. What is visible after k tokens is a function of
// those k tokens alone, so that feeding an earlier part again (after a preemption) gives the same
// state. Thread-compatible. Keeps a reference to the executor and uses only its any-thread methods.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "engine/embedded/stop_matcher.h"
#include "engine/executor.h"
#include "engine/types.h"

namespace tenuto {

class AnswerText {
 public:
  AnswerText(const Executor& executor, std::vector<std::string> stops);

  // The next token of the answer. REQUIRES: neither stopped() nor ended by Finish().
  void Add(TokenId token);
  // A stop string is complete: the answer ends before it.
  bool stopped() const { return stopped_; }
  const std::string& stop_string() const;  // "" unless stopped()

  // The answer ended without a stop string: what was held back becomes visible, half a character as
  // U+FFFD.
  void Finish();

  // What became visible since the last call; empty when nothing did. All chunks together are the
  // answer: their text and their tokens. A token comes with the chunk that completes its text.
  RunChunk TakeChunk();
  bool has_chunk() const { return !chunk_.text.empty() || !chunk_.tokens.empty(); }

  // After Stop or Finish: this many tokens of those added are in the answer as they are ...
  int32_t kept() const { return visible_tokens_; }
  // ... followed by these, which stand for the visible part of the token that the stop string began
  // in.
  const std::vector<TokenId>& replacement() const { return replacement_; }

 private:
  struct Pending {
    TokenId token = 0;
    size_t end = 0;  // offset in the answer's raw bytes after the token's text
  };

  void ShowUpTo(size_t offset);
  void ReleaseTokens();
  void CutAt(size_t offset);
  void Replace(TokenId token, size_t visible_bytes);

  const Executor& executor_;
  std::vector<std::string> stops_;
  StopMatcher matcher_;
  std::string raw_;   // bytes [shown_, added_) of the answer
  size_t shown_ = 0;  // raw bytes that became visible
  size_t added_ = 0;
  std::vector<Pending> pending_;  // tokens that are not wholly visible
  size_t pending_begin_ = 0;      // where the first pending token's text begins
  int32_t visible_tokens_ = 0;
  bool stopped_ = false;
  size_t stop_index_ = 0;
  std::vector<TokenId> replacement_;
  RunChunk chunk_;
};

// Tokens whose texts together are exactly `text`: the executor's tokenization where it has that
// property (some add a space), else the longest pieces of the vocabulary that fit. Not always
// complete in the second case.
std::vector<TokenId> TokensOf(const Executor& executor, const std::string& text);

}  // namespace tenuto

// Draws the next token from a model's logits. Order: logit bias, penalties, top_k, top_p, min_p,
// temperature, draw. Randomness is counter-based: the same seed, index and logits give the same
// token, so that a run that was preempted goes on exactly where it was. A NaN logit counts as -inf:
// that token is never drawn. Sampler is immutable and thread-compatible; the scratch memory is the
// caller's and may serve many samplers in turn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/types.h"

namespace tenuto {

struct TokenCandidate {
  float logit = 0;
  TokenId token = 0;
};

// Memory that is kept from draw to draw.
struct SamplerScratch {
  std::vector<float> adjusted;      // logits after bias and penalties
  std::vector<int32_t> counts;      // of each token in the penalty window; all zero between draws
  std::vector<float> block_maxima;  // greatest logit of each block of the vocabulary, twice
  std::vector<TokenCandidate> candidates;
  std::vector<double> weights;  // of candidates, not normalised
};

// kInvalid: a value that is not a number, a repeat penalty that is not positive, a biased token
// outside the vocabulary.
Status CheckSampling(const SamplingParams& params, int32_t vocabulary_size);

class Sampler {
 public:
  // REQUIRES: CheckSampling(params) passed.
  explicit Sampler(SamplingParams params);

  // The token at `index` of the answer (0 = its first). `history`: prompt and answer so far, for
  // penalties; all its tokens are inside the vocabulary. kInvalid: no token is left to draw (all
  // NaN or banned).
  Result<TokenId> Sample(std::span<const float> logits, std::span<const TokenId> history,
                         uint64_t index, SamplerScratch& scratch) const;

 private:
  std::span<const float> Adjust(std::span<const float> logits, std::span<const TokenId> history,
                                SamplerScratch& scratch) const;
  void Choose(std::span<const float> logits, SamplerScratch& scratch) const;
  float MinPFloor(float max) const;
  size_t NucleusSize(std::span<const TokenCandidate> sorted, double total) const;

  SamplingParams params_;
  bool penalties_ = false;
};

// The token of the greatest logit, the lowest id where several are equal; -1 when there is none
// above -inf.
TokenId Argmax(std::span<const float> logits);

// Leaves the `k` best candidates in scratch.candidates, best first; fewer when fewer are above
// -inf. Ties: lowest id first.
void SelectTop(std::span<const float> logits, size_t k, SamplerScratch& scratch);

// Uniform in [0, 1).
double UniformAt(uint64_t seed, uint64_t index);

}  // namespace tenuto

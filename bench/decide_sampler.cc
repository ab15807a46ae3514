// Question: what does our own sampler cost beside libllama's? (docs/decisions/0003)
// One draw from the same logits with the same settings, ours and a libllama chain (which first
// copies the logits into candidates, as its callers must); also greedy, and with penalties. Usage:
// decide_sampler [VOCABULARY]. JSON, one object a line. One thread, CPU time.
#include "decide_kit.h"
#include "engine/embedded/sampler.h"

namespace tenuto::bench {
namespace {

constexpr int kRounds = 300;

struct Case {
  const char* name;
  SamplingParams params;
};

std::vector<float> DrawnLogits(int vocabulary) {
  std::vector<float> logits;
  uint64_t state = 7;
  for (int i = 0; i < vocabulary; ++i) {
    float sum = 0;  // of four uniform numbers: near enough to a bell
    for (int part = 0; part < 4; ++part) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      sum += static_cast<float>(state >> 40) / static_cast<float>(1 << 24);
    }
    logits.push_back((sum - 2) * 7);
  }
  return logits;
}

double OursUs(const SamplingParams& params, const std::vector<float>& logits,
              const std::vector<TokenId>& history) {
  const Sampler sampler(params);
  SamplerScratch scratch;
  const double start = NowMs();
  for (uint64_t i = 0; i < kRounds; ++i) {
    if (!sampler.Sample(logits, history, i, scratch)) Die("no token was drawn");
  }
  return (NowMs() - start) * 1000 / kRounds;
}

double TheirsUs(const SamplingParams& params, const std::vector<float>& logits,
                const std::vector<TokenId>& history) {
  llama_sampler* chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
  const auto vocabulary = static_cast<int32_t>(logits.size());
  llama_sampler_chain_add(
      chain, llama_sampler_init_penalties(vocabulary, params.penalty_last_n,
                                          static_cast<float>(params.repeat_penalty),
                                          static_cast<float>(params.frequency_penalty),
                                          static_cast<float>(params.presence_penalty)));
  if (params.temperature <= 0) {
    llama_sampler_chain_add(chain, llama_sampler_init_greedy());
  } else {
    llama_sampler_chain_add(chain, llama_sampler_init_top_k(params.top_k));
    llama_sampler_chain_add(chain, llama_sampler_init_top_p(static_cast<float>(params.top_p), 1));
    llama_sampler_chain_add(chain, llama_sampler_init_min_p(static_cast<float>(params.min_p), 1));
    llama_sampler_chain_add(chain, llama_sampler_init_temp(static_cast<float>(params.temperature)));
    llama_sampler_chain_add(chain, llama_sampler_init_dist(1));
  }
  for (const TokenId token : history)
    llama_sampler_accept(chain, token);
  std::vector<llama_token_data> candidates(logits.size());
  const double start = NowMs();
  for (int round = 0; round < kRounds; ++round) {
    for (int32_t i = 0; i < vocabulary; ++i) {
      candidates[static_cast<size_t>(i)] = {i, logits[static_cast<size_t>(i)], 0};
    }
    llama_token_data_array array = {candidates.data(), candidates.size(), -1, false};
    llama_sampler_apply(chain, &array);
    if (array.selected < 0) Die("libllama drew no token");
  }
  const double us = (NowMs() - start) * 1000 / kRounds;
  llama_sampler_free(chain);
  return us;
}

}  // namespace
}  // namespace tenuto::bench

int main(int argc, char** argv) {
  using namespace tenuto;
  using namespace tenuto::bench;
  const std::vector<float> logits = DrawnLogits(argc > 1 ? std::atoi(argv[1]) : 49152);
  std::vector<TokenId> history;
  for (TokenId token = 0; token < 64; ++token)
    history.push_back(token * 37);
  Case greedy{"greedy", {}}, usual{"defaults", {}}, penalties{"defaults and penalties", {}},
      wide{"top_k off", {}};
  greedy.params.temperature = 0;
  penalties.params.repeat_penalty = 1.1;
  wide.params.top_k = 0;
  for (const Case& c : {greedy, usual, penalties, wide}) {
    const double ours = OursUs(c.params, logits, history);
    const double theirs = TheirsUs(c.params, logits, history);
    std::printf(
        "{\"bench\":\"sampler\",\"case\":\"%s\",\"vocabulary\":%zu,\"us\":{\"ours\":%.1f,"
        "\"libllama\":%.1f},"
        "\"ours_over_libllama\":%.2f}\n",
        c.name, logits.size(), ours, theirs, ours / theirs);
  }
  return 0;
}

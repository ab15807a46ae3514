// Question: flash attention on or off on this machine? (docs/decisions/0001)
// Decode of one token and prefill speed at several depths, both ways in the same run; bare
// libllama. Usage: decide_attention MODEL [DEEPEST]. JSON, one object a line. One thread, CPU time.
#include "decide_kit.h"

int main(int argc, char** argv) {
  using namespace tenuto::bench;
  if (argc < 2) Die("usage: decide_attention MODEL [DEEPEST]");
  const int deepest = argc > 2 ? std::atoi(argv[2]) : 4096;
  constexpr int kRounds = 12;
  Subject subject(argv[1]);
  struct Row {
    double decode_ms = 0;
    double prefill_tokens_s = 0;
  };
  std::vector<int> depths = {0, 1024};
  if (deepest > 1024) depths.push_back(deepest);
  std::vector<std::vector<Row>> rows(2);
  for (const bool on : {false, true}) {
    subject.Open({on, true, deepest + 512, 1});
    subject.Prefill(0, 1);
    int depth = 1;
    for (const int wanted : depths) {
      Row row;
      const int count = wanted - depth;
      if (count > 0) row.prefill_tokens_s = count / subject.Prefill(0, count) * 1000;
      row.decode_ms = subject.Decode({0}, kRounds);
      depth = std::max(depth, wanted) + kRounds;
      rows[on ? 1 : 0].push_back(row);
    }
  }
  for (size_t i = 0; i < depths.size(); ++i) {
    const Row& off = rows[0][i];
    const Row& on = rows[1][i];
    std::printf(
        "{\"bench\":\"attention\",\"depth\":%d,\"decode_ms\":{\"off\":%.1f,\"on\":%."
        "1f},"
        "\"decode_on_over_off\":%.2f,\"prefill_tokens_s\":{\"off\":%.0f,\"on\":%.0f}}\n",
        depths[i], off.decode_ms, on.decode_ms, on.decode_ms / off.decode_ms, off.prefill_tokens_s,
        on.prefill_tokens_s);
  }
  return 0;
}

// Question: one unified KV cache or one per sequence, and what do idle residents of a unified one
// cost? (docs/decisions/0002) Decode with one running sequence alone and beside 3 and 7 idle ones,
// and with all eight running, each of 512 tokens; bare libllama, flash attention off. Usage:
// decide_cache MODEL. JSON, one object a line. One thread, CPU time.
#include "decide_kit.h"

int main(int argc, char** argv) {
  using namespace tenuto::bench;
  if (argc < 2) Die("usage: decide_cache MODEL");
  constexpr int kSequences = 8, kDepth = 512, kRounds = 12;
  Subject subject(argv[1]);
  struct Row {
    double alone = 0, beside3 = 0, beside7 = 0, all = 0;
  };
  Row rows[2];
  for (const bool unified : {true, false}) {
    Row& row = rows[unified ? 0 : 1];
    subject.Open({false, unified, kSequences * (kDepth + 128), kSequences});
    subject.Prefill(0, kDepth);
    row.alone = subject.Decode({0}, kRounds);
    for (int i = 1; i < 4; ++i)
      subject.Prefill(i, kDepth);
    row.beside3 = subject.Decode({0}, kRounds);
    for (int i = 4; i < kSequences; ++i)
      subject.Prefill(i, kDepth);
    row.beside7 = subject.Decode({0}, kRounds);
    row.all = subject.Decode({0, 1, 2, 3, 4, 5, 6, 7}, kRounds);
    std::printf(
        "{\"bench\":\"cache\",\"unified\":%s,\"depth\":%d,\"decode_ms\":{\"alone\":%"
        ".1f,"
        "\"beside_3_idle\":%.1f,\"beside_7_idle\":%.1f,\"eight_running\":%.1f},\"idle_7_over_"
        "alone\":%.2f}\n",
        unified ? "true" : "false", kDepth, row.alone, row.beside3, row.beside7, row.all,
        row.beside7 / row.alone);
  }
  std::printf(
      "{\"bench\":\"cache\",\"unified_over_separate\":{\"alone\":%.2f,\"beside_7_idle\":%.2f,"
      "\"eight_running\":%.2f}}\n",
      rows[0].alone / rows[1].alone, rows[0].beside7 / rows[1].beside7, rows[0].all / rows[1].all);
  return 0;
}

// Question: flash attention on or off on this machine? (docs/decisions/0001)
// Decode of one token, a short turn, a longer one and prefill at several depths, both ways in the
// same run; bare libllama. Usage: decide_attention MODEL [DEEPEST [THREADS]]. JSON, one object a
// line.
#include "decide_kit.h"

namespace {

struct Row {
  double decode_ms = 0;
  double turn_17_ms = 0;
  double turn_64_ms = 0;
  double prefill_tokens_s = 0;
};

void Print(const char* name, double off, double on) {
  std::printf(",\"%s\":{\"off\":%.1f,\"on\":%.1f,\"on_over_off\":%.2f}", name, off, on, on / off);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tenuto::bench;
  if (argc < 2) Die("usage: decide_attention MODEL [DEEPEST [THREADS]]");
  const int deepest = argc > 2 ? std::atoi(argv[2]) : 4096;
  const int threads = argc > 3 ? std::atoi(argv[3]) : 1;
  constexpr int kRounds = 12;
  constexpr int kTurnRounds = 5;
  Subject subject(argv[1]);
  std::vector<int> depths = {1024};
  if (deepest > 1024) depths.push_back(deepest);
  std::vector<std::vector<Row>> rows(2);
  for (const bool on : {false, true}) {
    subject.Open({on, true, deepest + 512, 1, threads});
    int depth = 0;
    for (const int wanted : depths) {
      Row row;
      row.prefill_tokens_s = (wanted - depth) / subject.Prefill(0, wanted - depth) * 1000;
      row.turn_17_ms = subject.Turn(0, 17, kTurnRounds);
      row.turn_64_ms = subject.Turn(0, 64, kTurnRounds);
      row.decode_ms = subject.Decode({0}, kRounds);
      depth = wanted + kRounds;
      rows[on ? 1 : 0].push_back(row);
    }
  }
  for (size_t i = 0; i < depths.size(); ++i) {
    const Row& off = rows[0][i];
    const Row& on = rows[1][i];
    std::printf("{\"bench\":\"attention\",\"threads\":%d,\"depth\":%d", threads, depths[i]);
    Print("decode_ms", off.decode_ms, on.decode_ms);
    Print("turn_17_ms", off.turn_17_ms, on.turn_17_ms);
    Print("turn_64_ms", off.turn_64_ms, on.turn_64_ms);
    Print("prefill_tokens_s", off.prefill_tokens_s, on.prefill_tokens_s);
    std::printf("}\n");
  }
  return 0;
}

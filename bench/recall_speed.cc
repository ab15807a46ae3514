// recall_speed: what the recall layer costs on one conversation of tests/recall_data: adding,
// storing, loading, the first query and the warm ones. The baseline (FTS5) is measured beside it by
// tests/recall_data/speed.py, which also makes the files.
//
//     recall_speed [--rounds N] TURNS.jsonl QUESTIONS.jsonl
//
// Prints one JSON object. One thread; its processor time.
#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "recall/gate.h"

namespace tenuto {
namespace {

namespace json = boost::json;

constexpr size_t kHitsMax = 12;

// Processor time of this thread: all is computed in memory, and other programs' share of the core
// is not ours to measure.
double NowUs() {
  timespec now = {};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) std::abort();
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "recall_speed: %s\n", what.c_str());
  std::_Exit(1);
}

std::vector<json::object> LinesOf(const char* path) {
  std::ifstream file(path);
  if (!file) Die(std::string("cannot open ") + path);
  std::vector<json::object> lines;
  std::string line;
  while (std::getline(file, line))
    lines.push_back(json::parse(line).as_object());
  return lines;
}

std::string TextOf(const json::object& from, std::string_view key) {
  const json::value* found = from.if_contains(key);
  return found != nullptr && found->is_string() ? std::string(found->as_string()) : std::string();
}

Moment TimeOf(const json::object& from) {
  Moment moment;
  const std::string text = TextOf(from, "time");
  if (!ParseMoment(text, moment)) Die("not a time: " + text);
  return moment;
}

double Part(std::vector<double> us, size_t percent) {
  if (us.empty()) return 0.0;
  std::sort(us.begin(), us.end());
  return us[(us.size() - 1) * percent / 100];
}

struct Built {
  RecallIndex index;
  double add_us = 0.0;
  size_t text_bytes = 0;
  uint32_t window_from = 0;
};

// Reads line by line: a million turns as JSON values would not fit.
Built Build(const char* path) {
  Built built;
  Analyser analyser;
  std::ifstream file(path);
  if (!file) Die(std::string("cannot open ") + path);
  std::string line;
  while (std::getline(file, line)) {
    const json::value value = json::parse(line);
    const json::object& turn = value.as_object();
    const std::string user = TextOf(turn, "user");
    const std::string answer = TextOf(turn, "assistant");
    const std::string name = TextOf(turn, "name");
    ArchivedTurn archived;
    archived.turn = static_cast<uint32_t>(turn.at("turn").to_number<int64_t>());
    archived.time = TimeOf(turn);
    archived.user = user;
    archived.answer = answer;
    archived.name = name;
    const double started = NowUs();
    built.index.Add(analyser, archived);
    built.add_us += NowUs() - started;
    built.text_bytes += user.size() + answer.size();
  }
  return built;
}

class Asker {
 public:
  Asker(const RecallIndex& index, uint32_t window_from)
      : index_(index), scope_{{{0, window_from}}, {{window_from, UINT32_MAX}}} {}

  // Microseconds.
  double Ask(const json::object& asked) {
    const std::string text = TextOf(asked, "text");
    const std::string last_user = TextOf(asked, "last_user");
    const std::string last_answer = TextOf(asked, "last_answer");
    const Question question = {text, TimeOf(asked), last_user, last_answer};
    const double started = NowUs();
    const Query query = BuildQuery(analyser_, index_, question);
    const GateResult result = ApplyGate(scorer_.Rank(index_, query, scope_, kHitsMax), {});
    const double us = NowUs() - started;
    injected += result.injected.size();
    return us;
  }

  size_t injected = 0;

 private:
  const RecallIndex& index_;
  RecallScope scope_;
  Analyser analyser_;
  RecallScorer scorer_;
};

int Run(const char* turns, const char* questions, size_t rounds) {
  Built built = Build(turns);
  std::vector<json::object> asked = LinesOf(questions);
  if (asked.size() < 2) Die("no questions");
  const auto window_from = static_cast<uint32_t>(asked[0].at("window_from").to_number<int64_t>());
  asked.erase(asked.begin());

  const double encode_started = NowUs();
  const std::vector<std::byte> bytes = built.index.Encode();
  const double encode_us = NowUs() - encode_started;
  const size_t count = built.index.turns().size();
  built.index = RecallIndex();

  std::vector<double> load_us;
  std::vector<double> first_us;
  for (size_t round = 0; round < 15; ++round) {
    const double started = NowUs();
    Result<RecallIndex> loaded = RecallIndex::Decode(bytes);
    if (!loaded.ok()) Die(loaded.error().message());
    load_us.push_back(NowUs() - started);
    Asker asker(loaded.value(), window_from);
    first_us.push_back(load_us.back() + asker.Ask(asked[round % asked.size()]));
  }
  Result<RecallIndex> loaded = RecallIndex::Decode(bytes);
  Asker asker(loaded.value(), window_from);
  std::vector<double> warm_us;
  for (size_t round = 0; round <= rounds; ++round) {
    for (const json::object& one : asked) {
      const double us = asker.Ask(one);
      if (round > 0) warm_us.push_back(us);  // the first round warms
    }
  }
  json::object out;
  out["turns"] = count;
  out["questions"] = asked.size();
  out["turns_per_s"] = static_cast<double>(count) / built.add_us * 1e6;
  out["text_bytes"] = built.text_bytes;
  out["index_bytes"] = bytes.size();
  out["index_per_text"] = static_cast<double>(bytes.size()) / static_cast<double>(built.text_bytes);
  out["encode_us"] = encode_us;
  out["load_us"] = Part(load_us, 50);
  out["load_min_us"] = Part(load_us, 0);
  out["load_and_first_query_us"] = Part(first_us, 50);
  out["load_and_first_query_min_us"] = Part(first_us, 0);
  out["query_p50_us"] = Part(warm_us, 50);
  out["query_p95_us"] = Part(warm_us, 95);
  out["query_max_us"] = Part(warm_us, 100);
  std::cout << json::serialize(out) << std::endl;
  return 0;
}

}  // namespace
}  // namespace tenuto

int main(int argc, char** argv) {
  size_t rounds = 3;
  int at = 1;
  if (argc == 5 && std::string_view(argv[1]) == "--rounds") {
    rounds = std::strtoul(argv[2], nullptr, 10);
    at = 3;
  }
  if (argc - at != 2 || rounds == 0) {
    std::fprintf(stderr, "usage: recall_speed [--rounds N] TURNS.jsonl QUESTIONS.jsonl\n");
    return 2;
  }
  return tenuto::Run(argv[at], argv[at + 1], rounds);
}

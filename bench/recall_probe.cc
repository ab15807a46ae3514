// recall_probe: the recall layer behind the line protocol of tests/recall_data/evaluate.py, without
// a session or a server. At its end it prints what the questions took, what adding took, and how
// large the index is beside the text; the baseline (FTS5) is what evaluate.py runs beside it.
//
//     recall_probe [--why] [--set NAME=NUMBER]... < JSON lines
//
// --why adds to each answer the hits with their measure and reason; --set changes a setting of
// scorer or gate. One thread.
#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "recall/gate.h"
#include "recall/newer.h"

namespace tenuto {
namespace {

namespace json = boost::json;

constexpr size_t kHitsMax = 12;

double NowUs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "recall_probe: %s\n", what.c_str());
  std::_Exit(1);
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

struct Options {
  ScorerSettings scorer;
  GateSettings gate;
  bool why = false;
};

// "NAME=NUMBER". False: no such setting.
bool Set(Options& options, std::string_view text) {
  const size_t at = text.find('=');
  if (at == std::string_view::npos) return false;
  const std::string_view name = text.substr(0, at);
  const double value = std::strtod(std::string(text.substr(at + 1)).c_str(), nullptr);
  const std::pair<std::string_view, double*> settings[] = {
      {"k1", &options.scorer.k1},
      {"b", &options.scorer.b},
      {"b_long", &options.scorer.b_long},
      {"answer", &options.scorer.answer},
      {"asked", &options.scorer.asked},
      {"tool", &options.scorer.tool},
      {"bare_question", &options.scorer.bare_question},
      {"number", &options.scorer.number},
      {"other_name", &options.scorer.other_name},
      {"same_again", &options.scorer.same_again},
      {"smoothing", &options.scorer.smoothing},
      {"coverage", &options.scorer.coverage},
      {"newer", &options.scorer.newer},
      {"correcting", &options.scorer.correcting},
      {"tail_max", &options.scorer.tail_max},
      {"few_turns", &options.scorer.few_turns},
      {"log_expected_max", &options.gate.log_expected_max},
      {"log_dated", &options.gate.log_dated},
      {"log_task", &options.gate.log_task},
      {"log_inherited", &options.gate.log_inherited},
      {"log_day", &options.gate.log_day},
      {"log_apart", &options.gate.log_apart},
      {"log_proper", &options.gate.log_proper},
      {"log_named_matter", &options.gate.log_named_matter},
      {"log_identifier", &options.gate.log_identifier},
      {"log_personal", &options.gate.log_personal},
      {"log_asked_before", &options.gate.log_asked_before},
      {"share_of_best", &options.gate.share_of_best},
  };
  for (const auto& [known, target] : settings) {
    if (known != name) continue;
    *target = value;
    return true;
  }
  return false;
}

class Probe {
 public:
  explicit Probe(const Options& options)
      : gate_(options.gate), why_(options.why), scorer_(options.scorer) {}

  // The line to answer with, empty for none.
  std::string Handle(const std::string& line) {
    boost::system::error_code error;
    const json::value value = json::parse(line, error);
    if (error || !value.is_object()) Die("not a JSON object: " + line.substr(0, 100));
    const json::object& message = value.as_object();
    const std::string op = TextOf(message, "op");
    if (op == "reset") {
      Measure();
      index_ = RecallIndex();
      said_.clear();
      text_bytes_ = 0;
      return {};
    }
    if (op == "add") {
      Add(message.at("turn").as_object());
      return {};
    }
    if (op != "ask") Die("no such op: " + op);
    const auto limit = static_cast<uint32_t>(message.at("limit").to_number<int64_t>());
    const auto from = static_cast<uint32_t>(message.at("window_from").to_number<int64_t>());
    return Ask(message.at("question").as_object(), limit, from);
  }

  void Report() {
    Measure();
    if (us_.empty()) return;
    std::sort(us_.begin(), us_.end());
    const auto part = [&](size_t percent) { return us_[(us_.size() - 1) * percent / 100]; };
    std::fprintf(stderr,
                 "recall_probe: %zu queries, us p50 %.0f p95 %.0f max %.0f; %zu turns added, %.0f "
                 "a second; largest index %zu turns, %.3f bytes per byte of text\n",
                 us_.size(), part(50), part(95), us_.back(), added_,
                 add_us_ > 0 ? static_cast<double>(added_) / add_us_ * 1e6 : 0.0, largest_turns_,
                 largest_share_);
  }

 private:
  void Add(const json::object& turn) {
    const std::string user = TextOf(turn, "user");
    const std::string answer = TextOf(turn, "assistant");
    const std::string name = TextOf(turn, "name");
    std::vector<uint32_t> recalled;
    if (const json::value* list = turn.if_contains("recalled"); list != nullptr) {
      for (const json::value& one : list->as_array()) {
        recalled.push_back(static_cast<uint32_t>(one.to_number<int64_t>()));
      }
    }
    ArchivedTurn archived;
    archived.turn = static_cast<uint32_t>(turn.at("turn").to_number<int64_t>());
    archived.time = TimeOf(turn);
    archived.user = user;
    archived.answer = answer;
    archived.name = name;
    archived.recalled = recalled;
    said_[archived.turn] = {archived.time, user};
    const double started = NowUs();
    index_.Add(analyser_, archived);
    add_us_ += NowUs() - started;
    ++added_;
    text_bytes_ += user.size() + answer.size();
  }

  // As a server does, which has the texts in its log.
  void AddWhatIsLater(const GateSettings& gate, const RecallScope& scope, Ranking& ranking) {
    const GateResult likely = ApplyGate(ranking, gate);
    for (RecallHit& hit : ranking.hits) {
      if (!std::ranges::binary_search(likely.injected, hit.turn)) continue;
      const Said& said = said_[hit.turn];
      const OlderTurn older = {hit.turn, said.time, said.user};
      AddLater(analyser_, index_, scope.candidates, older, hit);
    }
  }

  static json::object QueryOf(const Ranking& ranking) {
    json::object query;
    query["own_units"] = ranking.own_units;
    query["own_known"] = ranking.own_known;
    query["window_info"] = ranking.window_info;
    query["window_own_info"] = ranking.window_own_info;
    query["asked_before"] = ranking.asked_before;
    query["question"] = ranking.cues.question;
    query["anaphoric"] = ranking.cues.anaphoric;
    query["chat"] = ranking.cues.chat;
    query["task"] = ranking.cues.task;
    query["personal"] = ranking.cues.personal;
    query["asks_assistant"] = ranking.cues.asks_assistant;
    return query;
  }

  std::string Ask(const json::object& asked, uint32_t limit, uint32_t window_from) {
    const std::string text = TextOf(asked, "text");
    const std::string last_user = TextOf(asked, "last_user");
    const std::string last_answer = TextOf(asked, "last_answer");
    const Question question = {text, TimeOf(asked), last_user, last_answer};
    const RecallScope scope = {{{0, window_from}}, {{window_from, UINT32_MAX}}};
    const double started = NowUs();
    const Query query = BuildQuery(analyser_, index_, question);
    Ranking ranking = scorer_.Rank(index_, query, scope, kHitsMax);
    GateSettings gate = gate_;
    gate.hits_max = limit;
    AddWhatIsLater(gate, scope, ranking);
    const GateResult result = ApplyGate(ranking, gate);
    const double us = NowUs() - started;
    us_.push_back(us);

    json::array ranked;
    for (const RecallVerdict& verdict : result.verdicts) {
      if (ranked.size() >= limit && !why_) break;
      json::object hit;
      hit["turn"] = verdict.hit.turn;
      hit["score"] = verdict.hit.score;
      json::array terms;
      for (const std::string& term : verdict.hit.terms)
        terms.emplace_back(term);
      hit["terms"] = std::move(terms);
      if (why_) {
        hit["log_expected"] = verdict.hit.log_expected;
        hit["units"] = verdict.hit.units;
        hit["inherited"] = verdict.hit.inherited;
        hit["info"] = verdict.hit.info;
        hit["apart"] = verdict.hit.apart;
        hit["dated"] = verdict.hit.dated;
        hit["said_then"] = verdict.hit.said_then;
        hit["number"] = verdict.hit.number;
        hit["proper"] = verdict.hit.proper;
        hit["identifier"] = verdict.hit.identifier;
        hit["source"] = verdict.hit.source;
        json::array with;
        for (const uint32_t turn : verdict.hit.with)
          with.push_back(turn);
        hit["with"] = std::move(with);
        // Those brought along come behind, and were not ranked.
        hit["ranked"] = ranked.size() < ranking.hits.size();
        hit["why"] = RecallWhyName(verdict.why);
      }
      ranked.push_back(std::move(hit));
    }
    json::array injected;
    for (const uint32_t turn : result.injected)
      injected.push_back(turn);
    json::object reply;
    reply["ranked"] = std::move(ranked);
    reply["decision"] = result.decision == RecallDecision::kInjected ? "injected"
                        : result.decision == RecallDecision::kGated  ? "gated"
                                                                     : "empty";
    reply["injected"] = std::move(injected);
    reply["us"] = us;
    if (why_) reply["query"] = QueryOf(ranking);
    return json::serialize(reply);
  }

  void Measure() {
    if (index_.turns().size() <= largest_turns_ || text_bytes_ == 0) return;
    largest_turns_ = index_.turns().size();
    largest_share_ = static_cast<double>(index_.Encode().size()) / static_cast<double>(text_bytes_);
  }

  struct Said {
    Moment time;
    std::string user;
  };

  GateSettings gate_;
  bool why_;
  RecallScorer scorer_;
  Analyser analyser_;
  RecallIndex index_;
  std::unordered_map<uint32_t, Said> said_;  // by turn
  std::vector<double> us_;
  size_t added_ = 0;
  double add_us_ = 0.0;
  size_t text_bytes_ = 0;
  size_t largest_turns_ = 0;
  double largest_share_ = 0.0;
};

}  // namespace
}  // namespace tenuto

int main(int argc, char** argv) {
  tenuto::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--why") {
      options.why = true;
    } else if (argument != "--set" || i + 1 == argc || !tenuto::Set(options, argv[++i])) {
      std::fprintf(stderr, "usage: recall_probe [--why] [--set NAME=NUMBER]... < JSON lines\n");
      return 2;
    }
  }
  tenuto::Probe probe(options);
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line.empty()) continue;
    const std::string reply = probe.Handle(line);
    if (!reply.empty()) std::cout << reply << std::endl;
  }
  probe.Report();
  return 0;
}

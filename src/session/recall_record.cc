#include "session/recall_record.h"

#include <algorithm>
#include <boost/json.hpp>
#include <limits>

namespace tenuto {
namespace {

namespace json = boost::json;

Error Corrupt() {
  return {Code::kCorrupt, "a stored recall record is not what this version writes"};
}

const json::array* ArrayOf(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr ? nullptr : value->if_array();
}

std::string TextOf(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

// A count; all ones for what is none, which every caller refuses.
uint64_t NumberOf(const json::object& object, std::string_view key, uint64_t otherwise) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr) return otherwise;
  if (value->is_int64() && value->get_int64() >= 0)
    return static_cast<uint64_t>(value->get_int64());
  return std::numeric_limits<uint64_t>::max();
}

json::array RangeToJson(TextRange range) {
  return {range.begin, range.end};
}

bool RangeFromJson(const json::object& object, std::string_view key, TextRange& range) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  const json::array* array = ArrayOf(object, key);
  if (array == nullptr || array->size() != 2) return false;
  const int64_t* begin = (*array)[0].if_int64();
  const int64_t* end = (*array)[1].if_int64();
  if (begin == nullptr || end == nullptr) return false;
  if (*begin < 0 || *end < *begin || *end > kMost) return false;
  range = {static_cast<uint32_t>(*begin), static_cast<uint32_t>(*end)};
  return true;
}

json::object CandidateToJson(const RecallCandidate& candidate) {
  json::array terms;
  for (const std::string& term : candidate.terms)
    terms.emplace_back(term);
  json::object object{{"turn", candidate.turn.value},
                      {"score", candidate.score},
                      {"terms", std::move(terms)},
                      {"injected", candidate.injected},
                      {"why", candidate.why}};
  if (candidate.newest_of > 1) object["newest_of"] = candidate.newest_of;
  return object;
}

Result<RecallCandidate> CandidateFromJson(const json::value& value) {
  const json::object* object = value.if_object();
  if (object == nullptr) return Corrupt();
  RecallCandidate candidate;
  candidate.turn.value = TextOf(*object, "turn");
  candidate.why = TextOf(*object, "why");
  const uint64_t newest_of = NumberOf(*object, "newest_of", 1);
  if (newest_of == 0 || newest_of > std::numeric_limits<uint32_t>::max()) return Corrupt();
  candidate.newest_of = static_cast<uint32_t>(newest_of);
  const json::value* injected = object->if_contains("injected");
  candidate.injected = injected != nullptr && injected->is_bool() && injected->get_bool();
  if (const json::value* score = object->if_contains("score"); score != nullptr) {
    boost::system::error_code error;
    candidate.score = score->to_number<double>(error);
    if (error) return Corrupt();
  }
  if (const json::array* terms = ArrayOf(*object, "terms"); terms != nullptr)
    for (const json::value& term : *terms)
      if (term.is_string()) candidate.terms.emplace_back(term.get_string());
  return candidate;
}

json::object QuoteToJson(const RecallQuote& quote) {
  json::object object{{"turn", quote.turn.value},
                      {"line", quote.line},
                      {"user", RangeToJson(quote.user)},
                      {"answer", RangeToJson(quote.answer)}};
  if (quote.tool.end > 0) object["tool"] = RangeToJson(quote.tool);
  return object;
}

Result<RecallQuote> QuoteFromJson(const json::value& value) {
  const json::object* object = value.if_object();
  RecallQuote quote;
  if (object == nullptr || !RangeFromJson(*object, "user", quote.user) ||
      !RangeFromJson(*object, "answer", quote.answer) ||
      (object->contains("tool") && !RangeFromJson(*object, "tool", quote.tool)))
    return Corrupt();
  quote.turn.value = TextOf(*object, "turn");
  quote.line = NumberOf(*object, "line", 0);
  if (quote.turn.empty() || quote.line == 0 || quote.line > std::numeric_limits<uint32_t>::max())
    return Corrupt();
  return quote;
}

Status ReadLists(const json::object& object, RecallRecord& record) {
  if (const json::array* front = ArrayOf(object, "front"); front != nullptr)
    for (const json::value& value : *front) {
      const json::object* turn = value.if_object();
      if (turn == nullptr) return Corrupt();
      record.front.push_back({NumberOf(*turn, "line", 0), {TextOf(*turn, "turn")}});
    }
  if (const json::array* quotes = ArrayOf(object, "quotes"); quotes != nullptr) {
    if (quotes->size() > kRecallQuotesMax) return Corrupt();
    for (const json::value& value : *quotes) {
      TENUTO_ASSIGN(RecallQuote quote, QuoteFromJson(value));
      record.quotes.push_back(std::move(quote));
    }
  }
  if (const json::array* candidates = ArrayOf(object, "candidates"); candidates != nullptr) {
    if (candidates->size() > kRecallCandidatesMax) return Corrupt();
    for (const json::value& value : *candidates) {
      TENUTO_ASSIGN(RecallCandidate candidate, CandidateFromJson(value));
      record.outcome.candidates.push_back(std::move(candidate));
    }
  }
  return Ok();
}

}  // namespace

std::string RecordToJson(const RecallRecord& record) {
  const bool says_nothing =
      !record.beside_deleted && record.spans_since == 1 && record.front.empty() &&
      record.mark.empty() && record.outcome.candidates.empty() &&
      (record.outcome.decision == "off" || record.outcome.decision == "empty");
  if (says_nothing) return "";
  json::object object{{"v", kRecallRecordVersion},
                      {"since", record.spans_since},
                      {"decision", record.outcome.decision}};
  if (!record.front.empty()) {
    json::array front;
    for (const NumberedTurn& turn : record.front)
      front.push_back(json::object{{"turn", turn.turn.value}, {"line", turn.line}});
    object["front"] = std::move(front);
  }
  if (record.prompt_tokens > 0) object["prompt_tokens"] = record.prompt_tokens;
  if (!record.mark.empty()) object["mark"] = record.mark;
  if (record.tokens > 0) object["tokens"] = record.tokens;
  if (!record.quotes.empty()) {
    object["at"] = record.at;
    object["digest"] = record.digest;
    json::array quotes;
    for (const RecallQuote& quote : record.quotes)
      quotes.push_back(QuoteToJson(quote));
    object["quotes"] = std::move(quotes);
  }
  if (!record.outcome.candidates.empty()) {
    json::array candidates;
    for (const RecallCandidate& candidate : record.outcome.candidates)
      candidates.push_back(CandidateToJson(candidate));
    object["candidates"] = std::move(candidates);
  }
  return json::serialize(object);
}

Result<RecallRecord> RecordFromJson(const std::string& text) {
  RecallRecord record;
  if (text.empty()) return record;
  boost::system::error_code error;
  const json::value value = json::parse(text, error);
  if (error || !value.is_object()) return Corrupt();
  const json::object& object = value.get_object();
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  const uint64_t version = NumberOf(object, "v", 0);
  record.spans_since = NumberOf(object, "since", 1);
  const uint64_t at = NumberOf(object, "at", 0);
  const uint64_t tokens = NumberOf(object, "tokens", 0);
  const uint64_t prompt_tokens = NumberOf(object, "prompt_tokens", 0);
  if (version != kRecallRecordVersion || record.spans_since == 0 || record.spans_since > kMost ||
      at > kMost || tokens > kMost || prompt_tokens > kMost)
    return Corrupt();
  record.at = static_cast<uint32_t>(at);
  record.tokens = static_cast<uint32_t>(tokens);
  record.prompt_tokens = static_cast<uint32_t>(prompt_tokens);
  record.mark = TextOf(object, "mark");
  record.digest = TextOf(object, "digest");
  record.outcome.decision = TextOf(object, "decision");
  record.outcome.tokens = static_cast<int32_t>(std::min<uint64_t>(tokens, kMost / 2));
  TENUTO_TRY(ReadLists(object, record));
  return record;
}

}  // namespace tenuto

// What answers say of recall, and the bodies of search, explain, replay and of a turn's state.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "schedule/service.h"
#include "serve/json/writer.h"
#include "session/recall_types.h"

namespace tenuto {

// Inside of an object: its member `recall`.
void WriteRecall(JsonWriter& writer, const RecallOutcome& recall);

// `ignored`: unknown fields of the request; a body names them in `tenuto.ignored` where there are
// any.
std::string SearchBody(const MemoryAnswer& answer, const std::vector<std::string>& ignored);
std::string ExplanationBody(const SessionKey& key, const TurnExplanation& explanation);
std::string ReplayAnswerBody(const SessionKey& key, const ReplayOutcome& outcome,
                             const std::vector<std::string>& ignored);
std::string TurnStateBody(const SessionKey& key, const TurnState& state,
                          const std::vector<std::string>& ignored);
std::string TurnDeletedBody(const TurnDeletion& deletion);

}  // namespace tenuto

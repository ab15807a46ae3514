// The parts that request parsers share: sampling, messages, session, prompt. Pure; inside of
// requests/.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/message.h"
#include "serve/requests/generate.h"

namespace tenuto {

struct SamplingRules {
  double temperature_max = 2.0;
  bool minus_one_seed_is_random = false;  // llama-server's convention
};

// temperature ... logit_bias, stop, ignore_eos, seed into `turn`.
Status ReadSampling(const boost::json::object& object, const SamplingRules& rules,
                    const RequestContext& context, TurnRequest& turn);

// `recall` into `turn`; `chat`: whether there are messages to recall for. REQUIRES: its session was
// read.
Status ReadRecall(const boost::json::object& object, bool chat, TurnRequest& turn);

// `priority` into `turn`.
Status ReadPriority(const boost::json::object& object, TurnRequest& turn);

// `timezone`; "" when it is not given. kInvalid: there is no such zone.
Result<std::string> ReadTimezone(const boost::json::object& object);

// The resolved settings of a turn, for the log and for /completion's generation_settings.
std::string SamplingJson(const TurnRequest& turn);

// `session_id` of the body or of the head.
Result<std::optional<SessionKey>> ReadSessionKey(const boost::json::object& object,
                                                 const RequestHeaders& headers);
// The same into `turn`, and the idempotency key.
Status ReadSession(const boost::json::object& object, const RequestHeaders& headers,
                   TurnRequest& turn);

// `messages`. `ignored` takes names of unknown members: "messages[2].foo".
Result<std::vector<ChatMessage>> ReadMessages(const boost::json::object& object, bool strict,
                                              std::vector<std::string>& ignored);

// `prompt`: a string, token ids, one of either in an array; with `mixed` also text and ids in one
// array.
Status ReadPrompt(const boost::json::object& object, bool mixed, const RequestContext& context,
                  GenerateRequest& request);

// Refuses what cannot fit the window whatever the tokenizer makes of it, before that work is done.
Status CheckTextSize(size_t bytes, const std::string& where, const RequestContext& context);

}  // namespace tenuto

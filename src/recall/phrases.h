// The phrases by which cues are found, in the languages the layer knows. Only cues.cc includes
// this. Phrases are case folded and stand between bars.
#pragma once

#include <string_view>

namespace tenuto::phrases {

extern const std::string_view kQuestionWords;
extern const std::string_view kDenseQuestions;
extern const std::string_view kDenseQuestionEnds;
extern const std::string_view kAnaphora;
extern const std::string_view kGoesOn;
extern const std::string_view kChat;
extern const std::string_view kDenseChat;
extern const std::string_view kTask;
extern const std::string_view kDenseTask;
extern const std::string_view kAsksAssistant;
extern const std::string_view kDenseAsksAssistant;
extern const std::string_view kWantsNumber;
extern const std::string_view kDenseWantsNumber;
extern const std::string_view kCorrects;
extern const std::string_view kDenseCorrects;
extern const std::string_view kWeakChat;
extern const std::string_view kPersonal;
extern const std::string_view kAddresses;

}  // namespace tenuto::phrases

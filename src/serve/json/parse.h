// JSON from the wire, more strictly than the library reads it: names may not repeat in an object,
// numbers must be finite, depth, members and memory are bounded. Thread-safe (no state).
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <string_view>

#include "base/result.h"

namespace tenuto {

struct JsonLimits {
  size_t depth_max;
  size_t members_max;  // names in all objects together
  size_t memory_bytes_max;
};

// What a request body may hold.
JsonLimits RequestJsonLimits();

// kInvalid with what is wrong and at which byte; at the field, where one is at fault: a repeated
// name, a number that is too large, bytes that are no UTF-8, half of a surrogate pair; what is
// nested too deeply at its outermost field. What is wrong in a name is at the object that has it.
// `what` is what messages call the text.
Result<boost::json::value> ParseJson(std::string_view text, const JsonLimits& limits,
                                     std::string_view what = "the body");

// As ParseJson with the limits of a request, and the outermost value must be an object.
Result<boost::json::object> ParseJsonObject(std::string_view text,
                                            std::string_view what = "the body");

}  // namespace tenuto

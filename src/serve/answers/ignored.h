// The `tenuto` member of answers that have no other use for it: which fields of the request nobody
// knew. Absent where all were known.
#pragma once

#include <string>
#include <vector>

#include "serve/json/writer.h"

namespace tenuto {

// REQUIRES: `writer` stands in an object.
inline void WriteIgnored(JsonWriter& writer, const std::vector<std::string>& ignored) {
  if (ignored.empty()) return;
  writer.Key("tenuto").BeginObject().Key("ignored").BeginArray();
  for (const std::string& name : ignored)
    writer.String(name);
  writer.EndArray().EndObject();
}

}  // namespace tenuto

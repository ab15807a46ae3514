// docs/api.md lists every route and every field: what it says can't fall behind the tables.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "serve/requests/fields.h"
#include "serve/routes.h"

namespace tenuto {
namespace {

std::string ReadDoc(const std::string& name) {
  std::ifstream file(std::string(TENUTO_SOURCE_DIR "/docs/") + name);
  EXPECT_TRUE(file.good()) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Docs, ApiNamesEveryRouteAndField) {
  const std::string api = ReadDoc("api.md");
  for (const Route& route : Routes()) {
    const std::string line = std::string(route.method) + " " + std::string(route.path) + "`";
    EXPECT_NE(api.find("`" + line), std::string::npos) << line;
  }
  for (const Endpoint endpoint : kEndpoints) {
    for (const FieldRule& rule : FieldRules(endpoint)) {
      EXPECT_NE(api.find("`" + std::string(rule.name)), std::string::npos) << rule.name;
    }
  }
}

TEST(Docs, ReasonsNameTheClosedList) {
  const std::string reasons = ReadDoc("reasons.md");
  for (const std::string code : {"new", "tail", "missing", "corrupt", "io", "fingerprint", "config",
                                 "prefix", "owner", "version", "state", "policy", "window"}) {
    EXPECT_NE(reasons.find("| `" + code + "` |"), std::string::npos) << code;
  }
}

}  // namespace
}  // namespace tenuto

// `tenuto sessions`: lists, shows, deletes, exports and imports sessions of a store, beside a
// running server or without one (importing needs one). Reading goes to the token log directly;
// deleting goes through the server's control socket where one runs, else takes the store's lock.
// One thread.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "base/ids.h"
#include "base/result.h"

namespace tenuto {

struct SessionsOptions {
  enum class Action : uint8_t { kList, kShow, kDelete, kExport, kImport };
  Action action = Action::kList;
  std::string session;  // all but kList
  std::string file;     // kImport; "-" is the standard input
  std::string store;
  bool json = false;
};

// What was asked for goes to `out`, errors to `err` as one sentence. 0 or 1.
int RunSessions(const SessionsOptions& options, std::ostream& out, std::ostream& err);

// A session's name as it stands on a command line. kInvalid: names it and what is wrong with it.
Result<SessionKey> ReadSessionName(const std::string& name);

// kNotFound, for people: there is no such session in `store`.
Error NoSession(const SessionKey& key, const std::string& store);

}  // namespace tenuto

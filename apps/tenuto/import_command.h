// `tenuto sessions import`: sends a file of items to the server that runs over a store. It needs
// one: only the server has the model's tokenizer. One thread.
#pragma once

#include <istream>
#include <ostream>
#include <string>

#include "base/ids.h"
#include "base/result.h"

namespace tenuto {

struct ImportSource {
  std::istream& lines;
  std::string name;  // for messages
};

struct ImportTotal {
  uint64_t items = 0;        // added, as the next two
  uint64_t items_known = 0;  // were there from an earlier run over the same file
  uint64_t turns = 0;
  uint64_t tokens = 0;
};

// In requests of a few MiB, each ending with an answer; progress goes to `err`. An error names the
// line from which on nothing was taken. Each request has a key of its place and its bytes, so that
// a second run over the same file adds what the first did not come to.
Result<ImportTotal> ImportThroughServer(const std::string& control_socket, const SessionKey& key,
                                        ImportSource source, std::ostream& err);

}  // namespace tenuto

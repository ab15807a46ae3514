// The command line of the binary: subcommands, flags, help. Parses, checks and calls a handler;
// does no work itself. One thread. CLI11 stays in cli.cc.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "chat.h"
#include "config.h"
#include "sessions_command.h"

namespace tenuto {

// What the subcommands do. main.cc fills in the real ones, tests their own.
struct CommandHandlers {
  std::function<int(const ServeConfig&)> serve;
  std::function<int(const ServeConfig&)> check;  // serve --check
  std::function<int(const ServeConfig&, const std::string& session)> verify;
  std::function<int(const ChatOptions&)> chat;
  std::function<int(const SessionsOptions&)> sessions;
  std::function<std::string()> version;
  // Names of all environment variables: those that look like settings and are none are warned of.
  std::function<std::vector<std::string>()> variables;
};

struct CommandStreams {
  std::ostream& out;
  std::ostream& err;
};

// `args` without the program's name. Returns the exit status: 0, 1 (it failed), 2 (the command line
// or the configuration is wrong; the reason is on `err`).
int RunCommandLine(const std::vector<std::string>& args, const Environment& environment,
                   const CommandHandlers& handlers, const CommandStreams& streams);

// llama-server's habit of one dash before several letters ("-np 4", "-ctk=q8_0") as long flags
// ("--parallel 4"): CLI11 would read them as "-n -p". Nothing after "--" is touched.
std::vector<std::string> RewriteShortFlags(const std::vector<std::string>& args);

}  // namespace tenuto

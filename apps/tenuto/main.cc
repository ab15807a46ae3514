// The tenuto binary: hands the command line to the handlers. Everything else is in the files beside
// it.
#include <iostream>

#include "chat.h"
#include "cli.h"
#include "compose.h"
#include "openmp_wait.h"
#include "sessions_command.h"

int main(int argc, char** argv) {
  tenuto::CommandHandlers handlers;
  handlers.serve = [argv](const tenuto::ServeConfig& config) {
    tenuto::SpinBriefly(argv);
    return tenuto::RunServe(config);
  };
  handlers.check = tenuto::RunCheck;
  handlers.verify = [argv](const tenuto::ServeConfig& config, const std::string& session) {
    tenuto::SpinBriefly(argv);
    return tenuto::RunVerify(config, session);
  };
  handlers.chat = [](const tenuto::ChatOptions& options) { return tenuto::RunChat(options); };
  handlers.sessions = [](const tenuto::SessionsOptions& options) {
    return tenuto::RunSessions(options, std::cout, std::cerr);
  };
  handlers.version = tenuto::VersionText;
  handlers.variables = tenuto::ProcessVariables;
  return tenuto::RunCommandLine({argv + 1, argv + argc}, tenuto::ProcessEnvironment(), handlers,
                                {std::cout, std::cerr});
}

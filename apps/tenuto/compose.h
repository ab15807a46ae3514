// The composition root: the only place that names concrete classes (executor, log, KV store, HTTP
// server) and wires them together. main.cc hands it the parsed configuration. Each call blocks on
// the main thread until its work is done.
#pragma once

#include <string>

#include "config.h"

namespace tenuto {

// Serves until SIGTERM, SIGINT or SIGHUP, then ends streams, commits, flushes. Returns the
// process's exit status: 0 after an orderly stop, 1 after an error, which has been printed as one
// sentence on standard error. One of these signals before it listens ends the process at once.
int RunServe(const ServeConfig& config);

// What RunServe would find before it loads the model: the model's files and architecture, the
// store's layout, log, rights and lock. Changes nothing. 0, or 1 with the sentence RunServe would
// print.
int RunCheck(const ServeConfig& config);

// Compares stored KV of one session with a recompute from its log, beside a running server or
// without one. Prints both figures. 0: equal within the bounds; 1: not, or it could not be checked.
int RunVerify(const ServeConfig& config, const std::string& session);

// Tenuto's own version and that of libllama, one a line.
std::string VersionText();

}  // namespace tenuto

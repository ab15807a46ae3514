// How long libllama's OpenMP threads spin while they wait for each other: the figures are in
// docs/decisions/0008.
#pragma once

namespace tenuto {

// Executes this program once more (same pid, arguments, open files) under a GOMP_SPINCOUNT that
// also suits a machine with other work: the OpenMP library reads it when it is loaded, before main.
// Comes back when the environment says already how to wait, or when exec fails (the threads then
// wait as the library likes). Before the first thread and the first open file only.
void SpinBriefly(char** argv);

}  // namespace tenuto

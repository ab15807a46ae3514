// What the C library keeps of memory that was freed.
#pragma once

namespace tenuto {

// Gives it back to the system, where the C library can. Takes milliseconds, during which other
// threads may wait for memory: not for the way of an answer.
void GiveFreedMemoryBack();

}  // namespace tenuto

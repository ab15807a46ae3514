// Files and folders, the only way any layer touches the disk, so that a test can be the disk.
// Names are single path components relative to a Dir (no '/', no "..", at most 255 bytes: else
// kInvalid); links are not followed (kDenied). A full disk or quota and a file at its size limit
// are kExhausted, missing rights or a read-only volume kDenied, the rest kIo. A File may outlive
// its Dir. A File may be read from many threads at once; writes, Sync and Close come from one
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tenuto {

class File {
 public:
  virtual ~File() = default;

  // Fills `out` from `offset` and returns the bytes read: fewer than asked only at the end of the
  // file. Code kIo.
  virtual Result<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) = 0;
  // Writes all parts one after the other from `offset`, or fails: kExhausted (disk full), kIo.
  // After an error the bytes past `offset` are unknown.
  virtual Status WriteAt(uint64_t offset, std::span<const std::span<const std::byte>> parts) = 0;
  // fdatasync. An error means that what was written since the last good Sync may be lost for ever:
  // don't retry (INV-11).
  virtual Status Sync() = 0;
  virtual Result<uint64_t> Size() = 0;
};

class Dir {
 public:
  virtual ~Dir() = default;

  // kNotFound, kIo, kDenied.
  virtual Result<std::unique_ptr<File>> OpenRead(std::string_view name) = 0;
  // Creates a new file for reading and writing. kConflict when it exists.
  virtual Result<std::unique_ptr<File>> Create(std::string_view name) = 0;
  // Opens an existing file for reading and writing.
  virtual Result<std::unique_ptr<File>> OpenWrite(std::string_view name) = 0;
  virtual Status Remove(std::string_view name) = 0;  // kNotFound when there is none
  // Makes created and removed names durable (fsync of the folder).
  virtual Status Sync() = 0;
  virtual Result<std::vector<std::string>> List() = 0;  // sorted names of regular files
  // The folder `name` inside, made (mode 0700) and made durable if it is missing.
  virtual Result<std::unique_ptr<Dir>> Sub(std::string_view name) = 0;
  // Bytes that may still be written on the volume of this folder; all ones where there is no limit.
  virtual Result<uint64_t> FreeBytes() = 0;
  // An exclusive advisory lock on file `name`, held until the returned File is destroyed.
  // kConflict: held by another; the message names the holder's process id when it can be read.
  virtual Result<std::unique_ptr<File>> Lock(std::string_view name) = 0;
};

// The real thing. Makes the folder (and its parents, mode 0700) when it does not exist.
// kDenied: not writable or no rights; kIo otherwise. Messages name the path and what to do.
Result<std::unique_ptr<Dir>> OpenDir(const std::string& path);

// An existing folder that nothing is changed in, for whoever holds no lock: Create, OpenWrite,
// Remove, Lock and Sync are kDenied, and Sub makes nothing (kNotFound). kNotFound, kDenied, kIo.
Result<std::unique_ptr<Dir>> OpenDirForReading(const std::string& path);

}  // namespace tenuto

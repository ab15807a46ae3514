// The folder that --store names: what lies where, who may write, which version it is.
// docs/formats/store.md has the layout. Not the log and not the KV pieces: those formats belong to
// tokenlog/ and payload/. Thread-compatible. All calls block.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/file.h"

namespace tenuto {

inline constexpr int kStoreVersion = 1;
// Absolute or relative as `root` was; nothing is opened.
struct StorePaths {
  std::string root;
  std::string lock;            // held by the one writer
  std::string format;          // "tenuto-store 1\n"
  std::string log;             // the token log, a SQLite database
  std::string kv;              // folder of the segment store
  std::string control_socket;  // HTTP over a Unix socket, while a server runs
  std::string recall;          // folder of recall indexes; derived
  std::string cache;           // folder of derived facts (model hashes); may be deleted at any time
};
StorePaths StorePathsOf(const std::string& root);

// A store that this process alone writes, until it is destroyed.
struct WritableStore {
  StorePaths paths;
  std::unique_ptr<File> lock;
  std::unique_ptr<Dir> root;
  std::unique_ptr<Dir> kv;
  std::unique_ptr<Dir> recall;
  std::unique_ptr<Dir> cache;
};

// Asked after each try that found the store locked: true to try again. A process that was killed
// holds its locks until all of its memory is given back, which can take a second.
using TryAgain = std::function<bool()>;

// Makes the folder when it is missing, takes the lock, checks the version or writes it into a new
// store. kConflict: another process holds it (message names its id where it is known); kDenied:
// read-only or no rights; kInvalid: another version, a folder of something else;
// kCorrupt: the format file is unreadable though a log exists, or the log is gone though KV pieces
// exist; kIo, kExhausted: the disk.
Result<WritableStore> OpenStoreForWriting(const std::string& path, const TryAgain& try_again = {});

// The same over a folder that is open already; for tests with a disk that fails.
Result<WritableStore> OpenStoreIn(std::unique_ptr<Dir> root, const std::string& path);

// Checks that there is a store of this version and takes nothing: works beside a running server and
// on a read-only volume. kNotFound: no store there (message says what makes one); kInvalid,
// kCorrupt, kDenied as above.
Result<StorePaths> OpenStoreForReading(const std::string& path);

// Whether OpenStoreForWriting and the token log would work now, changing nothing: Ok for a folder
// that does not exist too, where it could be made. Errors as there; kExhausted is StoreIsFull.
struct StoreCheck {
  bool exists = false;
};
Result<StoreCheck> CheckStore(const std::string& path);

// kExhausted: the store's volume has no room for the token log. Names the folder that may go.
Error StoreIsFull(const std::string& path);

// Judges the text of a format file: Ok, kInvalid naming both versions, or kCorrupt. `root` is for
// the message.
Status CheckStoreFormat(std::string_view text, const std::string& root);

// $XDG_DATA_HOME/tenuto, else $HOME/.local/share/tenuto. A relative XDG_DATA_HOME is ignored, as
// its standard says. Empty arguments: not set; empty answer: neither is.
std::string DefaultStorePath(const std::string& xdg_data_home, const std::string& home);

}  // namespace tenuto

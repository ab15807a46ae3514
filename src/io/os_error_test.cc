#include "io/os_error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace tenuto {
namespace {

TEST(OsError, SaysWhatFailedWhyAndWhatToDo) {
  EXPECT_EQ(OsErrorText(ENOENT), "No such file or directory");
  EXPECT_EQ(OsErrorText(987654), "Unknown error 987654");
  const Error full = OsError("write", "/a/b", ENOSPC);
  EXPECT_EQ(full.code(), Code::kExhausted);
  EXPECT_EQ(full.message(), "write /a/b: No space left on device; free space on this volume");
  EXPECT_EQ(OsError("write", "/a", EFBIG).code(), Code::kExhausted);
  EXPECT_EQ(OsError("open", "/a", ENOENT).code(), Code::kNotFound);
  EXPECT_EQ(OsError("open", "/a", ELOOP).code(), Code::kDenied);
  EXPECT_EQ(OsError("open", "/a", EEXIST).code(), Code::kConflict);
  EXPECT_EQ(OsError("read", "/a", EIO).code(), Code::kIo);
}

}  // namespace
}  // namespace tenuto

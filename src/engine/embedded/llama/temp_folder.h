// A folder for the files of one test. Tests only.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace tenuto {

// A folder of the test's own, gone with it.
class TempFolder {
 public:
  TempFolder() {
    std::string form = ::testing::TempDir() + "tenuto-XXXXXX";
    path_ = ::mkdtemp(form.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tenuto

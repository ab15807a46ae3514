// Reads the vector files of tests/vectors: "key: value" lines, then "bytes:" and lines of hex. For
// tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace tenuto {

struct VectorFile {
  std::string path;
  std::map<std::string, std::string> keys;
  std::vector<std::byte> bytes;

  // "" where the key is missing.
  std::string Get(const std::string& key) const {
    const auto found = keys.find(key);
    return found == keys.end() ? std::string() : found->second;
  }
};

inline int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

inline VectorFile ReadVectorFile(const std::filesystem::path& path) {
  VectorFile file{.path = path.string(), .keys = {}, .bytes = {}};
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  std::string line;
  while (std::getline(in, line) && line != "bytes:") {
    const size_t colon = line.find(": ");
    EXPECT_NE(colon, std::string::npos) << path << ": " << line;
    if (colon != std::string::npos) file.keys[line.substr(0, colon)] = line.substr(colon + 2);
  }
  EXPECT_EQ(line, "bytes:") << path;
  while (std::getline(in, line)) {
    EXPECT_EQ(line.size() % 2, 0U) << path << ": " << line;
    for (size_t i = 0; i + 1 < line.size(); i += 2) {
      const int high = HexDigit(line[i]);
      const int low = HexDigit(line[i + 1]);
      EXPECT_TRUE(high >= 0 && low >= 0) << path << ": " << line;
      file.bytes.push_back(static_cast<std::byte>(high * 16 + low));
    }
  }
  return file;
}

// All vectors of a format, of every version, by path. Never empty: a folder that moved must not
// pass.
inline std::vector<VectorFile> ReadVectors(const std::string& format) {
  std::vector<VectorFile> files;
  const std::filesystem::path root = std::filesystem::path(TENUTO_VECTORS_DIR) / format;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".txt") files.push_back(ReadVectorFile(entry.path()));
  }
  std::sort(files.begin(), files.end(),
            [](const VectorFile& a, const VectorFile& b) { return a.path < b.path; });
  EXPECT_FALSE(files.empty()) << root;
  return files;
}

}  // namespace tenuto

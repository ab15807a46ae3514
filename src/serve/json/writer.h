// Writes JSON into a string, piece by piece, without a tree in between. Thread-compatible.
// The caller pairs Begin and End; commas come by themselves.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/utf8.h"  // IsUtf8: what a string of JSON must be

namespace tenuto {

// Appends `text` as a JSON string with its quotes. Bytes that are no UTF-8 become U+FFFD, so that
// the result always is.
void AppendJsonString(std::string& out, std::string_view text);
std::string JsonString(std::string_view text);

class JsonWriter {
 public:
  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();

  // Inside an object, before each value.
  JsonWriter& Key(std::string_view name);

  JsonWriter& String(std::string_view value);
  JsonWriter& Int(int64_t value);
  JsonWriter& Uint(uint64_t value);
  JsonWriter& Double(double value);  // not finite: null
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  JsonWriter& Raw(std::string_view json);  // a whole value, trusted

  // Key and value in one.
  JsonWriter& Field(std::string_view name, std::string_view value) {
    return Key(name).String(value);
  }
  JsonWriter& Field(std::string_view name, const char* value) { return Key(name).String(value); }
  JsonWriter& Field(std::string_view name, const std::string& value) {
    return Key(name).String(value);
  }
  JsonWriter& Field(std::string_view name, int32_t value) { return Key(name).Int(value); }
  JsonWriter& Field(std::string_view name, int64_t value) { return Key(name).Int(value); }
  JsonWriter& Field(std::string_view name, uint64_t value) { return Key(name).Uint(value); }
  JsonWriter& Field(std::string_view name, double value) { return Key(name).Double(value); }
  JsonWriter& Field(std::string_view name, bool value) { return Key(name).Bool(value); }

  const std::string& text() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  void Separate();

  std::string out_;
  bool comma_ = false;  // a value was written at this level
};

}  // namespace tenuto

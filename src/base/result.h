// Result<T>: a value or an Error, the only way an error crosses a function, a folder or a thread.
// A plain value type (thread-compatible). Nothing here throws; asking an error for its value
// aborts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace tenuto {

// A closed set: callers switch on it, serve/ maps it to HTTP, metrics count it. Text is for people
// only.
enum class Code : uint8_t {
  kNotFound = 1,  // the named thing does not exist
  kCorrupt,       // stored or received bytes fail a check
  kInvalid,       // the caller asked for something that can't be
  kConflict,      // somebody else changed it first, or it is in use
  kExhausted,     // a budget (cells, sequences, queue, disk) is used up
  kUnavailable,   // shutting down, or a part is not there now
  kDenied,        // not allowed
  kIo,            // the operating system or a device said no
};

std::string_view CodeName(Code code);

class [[nodiscard]] Error {
 public:
  Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  // For kInvalid: the request field at fault ("messages[0].content"), empty where none is.
  const std::string& field() const { return field_; }
  // Seconds after which the same may go through; 0: nobody knows.
  int64_t retry_after_s() const { return retry_after_s_; }

  // Adds what the caller was doing, once per layer: "open store /x: permission denied".
  Error With(std::string_view context) &&;
  Error At(std::string field) &&;
  Error RetryAfter(int64_t seconds) &&;

 private:
  Code code_;
  std::string message_;
  std::string field_;
  int64_t retry_after_s_ = 0;
};

[[noreturn]] void DieOnError(const Error& error);

template <typename T>
class [[nodiscard]] Result {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): `return value;` is what makes the type bearable.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor): `return Error(...);` likewise.
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return Get(*this); }
  const T& value() const& { return Get(*this); }
  T&& value() && { return std::move(Get(*this)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !ok().
  const Error& error() const& { return *std::get_if<1>(&state_); }
  Error&& error() && { return std::move(*std::get_if<1>(&state_)); }

 private:
  template <typename Self>
  static auto& Get(Self& self) {
    if (!self.ok()) DieOnError(*std::get_if<1>(&self.state_));
    return *std::get_if<0>(&self.state_);
  }
  std::variant<T, Error> state_;
};

struct Unit {};
using Status = Result<Unit>;
inline Status Ok() {
  return Unit{};
}

}  // namespace tenuto

// Early return on error. These two macros and no third.
#define TENUTO_TRY(expr)                                                                      \
  do {                                                                                        \
    if (auto tenuto_status = (expr); !tenuto_status) return std::move(tenuto_status).error(); \
  } while (false)
#define TENUTO_CONCAT_INNER(a, b) a##b
#define TENUTO_CONCAT(a, b) TENUTO_CONCAT_INNER(a, b)
// Two statements: not for an unbraced if.
#define TENUTO_ASSIGN(decl, expr) \
  TENUTO_ASSIGN_INNER(TENUTO_CONCAT(tenuto_result_, __LINE__), decl, expr)
#define TENUTO_ASSIGN_INNER(result, decl, expr)  \
  auto result = (expr);                          \
  if (!result) return std::move(result).error(); \
  decl = std::move(result).value()

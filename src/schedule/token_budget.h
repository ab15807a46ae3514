// Tokens per minute of each tenant, as a bucket that holds a minute's worth and fills evenly. A
// turn may take it below empty; the tenant waits then until that is paid back. Pure: the caller
// says what time it is (monotonic). One thread.
//
// Kept as the moment at which the bucket is full again (the "generic cell rate algorithm" of ATM
// networks): one number for each tenant, none for a tenant whose bucket is full.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace tenuto {

class TokenBudget {
 public:
  // 0: no limit.
  explicit TokenBudget(int64_t tokens_per_minute) : tokens_per_minute_(tokens_per_minute) {}

  // Time until there is something in the bucket; 0: there is.
  int64_t WaitNs(const std::string& tenant, int64_t now_ns) const;
  // Takes tokens out or, below 0, puts them back.
  void Charge(const std::string& tenant, int64_t tokens, int64_t now_ns);

  size_t tenants() const { return full_ns_.size(); }  // that it remembers

 private:
  const int64_t tokens_per_minute_;
  std::map<std::string, int64_t> full_ns_;
  size_t sweep_at_ = 64;
};

}  // namespace tenuto

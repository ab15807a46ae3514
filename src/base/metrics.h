// Counters, gauges and histograms of the process, and their Prometheus text. Thread-safe: updates
// are atomic adds. A metric lives as long as its Metrics object; references stay valid. Label sets
// are fixed at creation.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "base/mutex.h"

namespace tenuto {

class Counter {
 public:
  void Add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
  void Set(int64_t v) { value_.store(v, std::memory_order_relaxed); }
  void Add(int64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// Times in seconds over fixed buckets from 100 us to 100 s, factor ~3.
class Histogram {
 public:
  static constexpr std::array<double, 13> kBounds = {1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1,
                                                     3e-1, 1,    3,    10,   30,   100};
  void Observe(double seconds);
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  uint64_t bucket(size_t i) const { return buckets_[i].load(std::memory_order_relaxed); }
  double sum_seconds() const {
    return 1e-9 * static_cast<double>(sum_ns_.load(std::memory_order_relaxed));
  }

 private:
  std::array<std::atomic<uint64_t>, kBounds.size()> buckets_{};
  std::atomic<uint64_t> count_{0};
  std::atomic<uint64_t> sum_ns_{0};
};

// `name="value"` with the value escaped as the text format asks. Join several with ','.
std::string MetricLabel(std::string_view name, std::string_view value);

class Metrics {
 public:
  // The same (name, labels) gives the same object; one name is of one type only (else it aborts).
  // `name` like "tenuto_turns_total"; `labels` like `code="io"` or ""; a value that is not a
  // literal goes through MetricLabel.
  Counter& GetCounter(std::string_view name, std::string_view help, std::string_view labels = "");
  Gauge& GetGauge(std::string_view name, std::string_view help, std::string_view labels = "");
  Histogram& GetHistogram(std::string_view name, std::string_view help,
                          std::string_view labels = "");

  // Prometheus text exposition format 0.0.4, grouped by name.
  std::string Text() const;

 private:
  template <typename T>
  struct Entry {
    std::string name, help, labels;
    T metric;
  };
  template <typename T>
  static T& Find(std::deque<Entry<T>>& entries, std::string_view name, std::string_view help,
                 std::string_view labels);

  mutable Mutex mutex_;
  std::deque<Entry<Counter>> counters_ TENUTO_GUARDED_BY(mutex_);
  std::deque<Entry<Gauge>> gauges_ TENUTO_GUARDED_BY(mutex_);
  std::deque<Entry<Histogram>> histograms_ TENUTO_GUARDED_BY(mutex_);
};

}  // namespace tenuto

#include "base/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "base/check.h"

namespace tenuto {
namespace {

// Text between quotes escapes the quote as well; HELP text must not.
std::string Escape(std::string_view text, bool quoted) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else if (c == '"' && quoted)
      out += "\\\"";
    else
      out += c;
  }
  return out;
}

bool IsName(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::string Sample(std::string_view name, std::string_view labels, std::string_view value) {
  return labels.empty() ? fmt::format("{} {}\n", name, value)
                        : fmt::format("{}{{{}}} {}\n", name, labels, value);
}

std::string Samples(std::string_view name, std::string_view labels, const Counter& counter) {
  return Sample(name, labels, std::to_string(counter.value()));
}

std::string Samples(std::string_view name, std::string_view labels, const Gauge& gauge) {
  return Sample(name, labels, std::to_string(gauge.value()));
}

std::string Samples(std::string_view name, std::string_view labels, const Histogram& histogram) {
  const std::string bucket_name = std::string(name) + "_bucket";
  const std::string prefix = labels.empty() ? "" : std::string(labels) + ",";
  std::string out;
  uint64_t cumulative = 0;
  for (size_t i = 0; i < Histogram::kBounds.size(); ++i) {
    cumulative += histogram.bucket(i);
    out += Sample(bucket_name, fmt::format("{}le=\"{}\"", prefix, Histogram::kBounds[i]),
                  std::to_string(cumulative));
  }
  // Read while others observe, count may lag behind the buckets; a scrape must never show that.
  const std::string count = std::to_string(std::max(cumulative, histogram.count()));
  out += Sample(bucket_name, prefix + "le=\"+Inf\"", count);
  out += Sample(std::string(name) + "_sum", labels, fmt::format("{}", histogram.sum_seconds()));
  out += Sample(std::string(name) + "_count", labels, count);
  return out;
}

// All samples of one name, under its one HELP and TYPE.
struct Family {
  std::string help;
  std::string_view type;
  std::string samples;
};

template <typename Entries>
void Collect(const Entries& entries, std::string_view type,
             std::map<std::string, Family, std::less<>>& families) {
  for (const auto& entry : entries) {
    Family& family = families[entry.name];
    if (family.type.empty()) {
      family.help = entry.help;
      family.type = type;
    }
    family.samples += Samples(entry.name, entry.labels, entry.metric);
  }
}

template <typename Entries>
bool HasName(const Entries& entries, std::string_view name) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const auto& entry) { return entry.name == name; });
}

}  // namespace

void Histogram::Observe(double seconds) {
  // A clock that jumped must not take from the sum or turn it into nonsense.
  const double value = std::isfinite(seconds) ? std::clamp(seconds, 0.0, 1e6) : 0.0;
  const auto bound = std::lower_bound(kBounds.begin(), kBounds.end(), value);
  count_.fetch_add(1, std::memory_order_relaxed);
  if (bound != kBounds.end())
    buckets_[static_cast<size_t>(bound - kBounds.begin())].fetch_add(1, std::memory_order_relaxed);
  sum_ns_.fetch_add(static_cast<uint64_t>(std::llround(value * 1e9)), std::memory_order_relaxed);
}

std::string MetricLabel(std::string_view name, std::string_view value) {
  TENUTO_CHECK(IsName(name));
  return fmt::format("{}=\"{}\"", name, Escape(value, true));
}

template <typename T>
T& Metrics::Find(std::deque<Entry<T>>& entries, std::string_view name, std::string_view help,
                 std::string_view labels) {
  TENUTO_CHECK(IsName(name));
  for (Entry<T>& entry : entries)
    if (entry.name == name && entry.labels == labels) return entry.metric;
  Entry<T>& entry = entries.emplace_back();
  entry.name = name;
  entry.help = help;
  entry.labels = labels;
  return entry.metric;
}

Counter& Metrics::GetCounter(std::string_view name, std::string_view help,
                             std::string_view labels) {
  MutexLock lock(mutex_);
  TENUTO_CHECK(!HasName(gauges_, name) && !HasName(histograms_, name));
  return Find(counters_, name, help, labels);
}

Gauge& Metrics::GetGauge(std::string_view name, std::string_view help, std::string_view labels) {
  MutexLock lock(mutex_);
  TENUTO_CHECK(!HasName(counters_, name) && !HasName(histograms_, name));
  return Find(gauges_, name, help, labels);
}

Histogram& Metrics::GetHistogram(std::string_view name, std::string_view help,
                                 std::string_view labels) {
  MutexLock lock(mutex_);
  TENUTO_CHECK(!HasName(counters_, name) && !HasName(gauges_, name));
  return Find(histograms_, name, help, labels);
}

std::string Metrics::Text() const {
  std::map<std::string, Family, std::less<>> families;
  {
    MutexLock lock(mutex_);
    Collect(counters_, "counter", families);
    Collect(gauges_, "gauge", families);
    Collect(histograms_, "histogram", families);
  }
  std::string out;
  for (const auto& [name, family] : families) {
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, Escape(family.help, false), name,
                       family.type);
    out += family.samples;
  }
  return out;
}

}  // namespace tenuto

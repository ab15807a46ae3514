#include "schedule/fair_level.h"

#include <algorithm>

#include "base/check.h"

namespace tenuto {
namespace {

// Fine enough for a weight of thousands, and far from the end of 63 bits: at a million tokens a
// second without one moment in which nobody waits, four years.
constexpr int64_t kScale = int64_t{1} << 16;
// Children that do not wait and still owe something. Past it the least is forgiven.
constexpr size_t kRestingMax = 1024;

}  // namespace

FairLevel::Place FairLevel::PlaceOf(Children::iterator child) const {
  return {child->second.tag, child->second.since, child};
}

FairLevel::Children::iterator FairLevel::Add(const std::string& name, int32_t weight) {
  TENUTO_CHECK(weight > 0);
  const auto [child, added] = children_.try_emplace(name);
  if (added) {
    child->second.weight = weight;
    child->second.tag = child->second.floor = clock_;
    child->second.since = ++places_;
    weights_ += weight;
  }
  return child;
}

void FairLevel::Wake(const std::string& name, int32_t weight) {
  const auto child = Add(name, weight);
  TENUTO_CHECK(!child->second.waits);
  resting_.erase(PlaceOf(child));
  child->second.floor = clock_;
  child->second.since = ++places_;
  child->second.waits = true;
  ready_.insert(PlaceOf(child));
}

void FairLevel::Sleep(const std::string& name) {
  const auto child = children_.find(name);
  TENUTO_CHECK(child != children_.end() && child->second.waits);
  ready_.erase(PlaceOf(child));
  child->second.waits = false;
  if (!ready_.empty()) return Rest(child);
  children_.clear();
  resting_.clear();
  weights_ = clock_ = behind_ = 0;
}

void FairLevel::Rest(Children::iterator child) {
  resting_.insert(PlaceOf(child));
  ForgetOld();
}

const std::string* FairLevel::Next() const {
  return ready_.empty() ? nullptr : &ready_.begin()->child->first;
}

void FairLevel::Charge(const std::string& name, int64_t tokens) {
  const auto child = children_.find(name);
  TENUTO_CHECK(child != children_.end() && child->second.waits && tokens > 0);
  ready_.erase(PlaceOf(child));
  clock_ = std::max(clock_ + std::max<Tag>(behind_, 0), child->second.tag);
  behind_ = std::min<Tag>(behind_, 0) + tokens * kScale / weights_;
  child->second.tag += tokens * kScale / child->second.weight;
  child->second.since = ++places_;
  ready_.insert(PlaceOf(child));
  ForgetOld();
}

void FairLevel::Correct(const std::string& name, int32_t weight, int64_t tokens) {
  if (ready_.empty()) return;
  behind_ += tokens * kScale / weights_;
  if (tokens <= 0 && !children_.contains(name)) return;
  const auto child = Add(name, weight);
  std::set<Place>& places = child->second.waits ? ready_ : resting_;
  places.erase(PlaceOf(child));
  const Tag corrected = child->second.tag + tokens * kScale / child->second.weight;
  child->second.tag = std::max(corrected, child->second.floor);
  if (!child->second.waits) return Rest(child);
  places.insert(PlaceOf(child));
}

void FairLevel::ForgetOld() {
  while (!resting_.empty() && (resting_.begin()->tag <= clock_ || resting_.size() > kRestingMax)) {
    const auto child = resting_.begin()->child;
    resting_.erase(resting_.begin());
    weights_ -= child->second.weight;
    children_.erase(child);
  }
}

}  // namespace tenuto

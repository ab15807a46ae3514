// Who goes next among the children of one parent, so that over time each gets tokens by its weight.
// Pure and deterministic: no clock but its own, no callbacks. One thread.
//
// The rule is start-time fair queueing (Goyal, Vin, Cheng: "Start-time Fair Queueing", SIGCOMM
// 1996): each child has a tag, the virtual time at which its next turn starts; the smallest goes
// first, and a turn of t tokens moves the tag on by t / weight. A child that comes back starts at
// the clock, never before it, so being away earns nothing. The clock is the tag of what went last.
// As in WF2Q+ (Bennett, Zhang: "Hierarchical Packet Fair Queueing", SIGCOMM 1996) it also moves
// with each turn by what all present get of it: otherwise ever-new children, each of which starts
// at the clock, could keep the others waiting for ever.
//
// Between two children that wait all the time, tokens / weight differs by at most one turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace tenuto {

class FairLevel {
 public:
  FairLevel() = default;
  FairLevel(const FairLevel&) = delete;
  FairLevel& operator=(const FairLevel&) = delete;

  // The child has something waiting. REQUIRES: it had not; weight > 0.
  void Wake(const std::string& child, int32_t weight);
  // It has not any more. REQUIRES: it had. When nobody waits, all is forgotten.
  void Sleep(const std::string& child);
  // Who goes next; null: nobody waits. Valid until the next change.
  const std::string* Next() const;
  // A turn of a waiting child went; it waits on, until Sleep. tokens > 0.
  void Charge(const std::string& child, int64_t tokens);
  // What was charged was too little or, below 0, too much; a refund takes nobody back to before he
  // came. `weight` as in Wake.
  void Correct(const std::string& child, int32_t weight, int64_t tokens);

  bool idle() const { return ready_.empty(); }
  size_t children() const { return children_.size(); }  // that it remembers

 private:
  using Tag = int64_t;  // virtual time: tokens / weight * kScale
  struct Child {
    int32_t weight = 1;
    Tag tag = 0;
    Tag floor = 0;  // the clock when it woke: no refund takes it below
    uint64_t since = 0;
    bool waits = false;
  };
  using Children = std::map<std::string, Child>;
  struct Place {
    Tag tag;
    uint64_t since;  // of equal tags the one that waits longer
    Children::iterator child;
    bool operator<(const Place& other) const {
      return tag != other.tag ? tag < other.tag : since < other.since;
    }
  };

  Place PlaceOf(Children::iterator child) const;
  Children::iterator Add(const std::string& name, int32_t weight);
  void Rest(Children::iterator child);
  void ForgetOld();

  Children children_;  // that wait, or whose last turn the clock has not passed yet
  std::set<Place> ready_;
  std::set<Place> resting_;  // each has a tag that the clock has not passed
  int64_t weights_ = 0;      // of all children
  Tag clock_ = 0;
  Tag behind_ = 0;  // how far the next turn moves it for the last; below 0: it went too far
  uint64_t places_ = 0;
};

}  // namespace tenuto

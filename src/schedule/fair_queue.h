// The turns that wait for a place in the engine, in the order in which they get one: interactive
// before batch; within each, tenants, then a tenant's users, then a user's sessions share by tokens
// (fair_level.h); turns of one session first come first served. Pure and deterministic. One thread.
//
// Batch turns wait while an interactive one does, but not for ever: they earn a token for every
// kBatchShare tokens that interactive turns get meanwhile, and one that has earned its own goes
// first. So a batch turn of t tokens waits for at most kBatchShare * t tokens and one turn more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "schedule/fair_level.h"
#include "session/turn_types.h"

namespace tenuto {

// Whose a turn is.
struct FairFlow {
  TurnPriority priority = TurnPriority::kInteractive;
  std::string tenant, user, session;
};

class FairQueue {
 public:
  static constexpr int64_t kBatchShare = 16;

  // Tenants that are not in `weights` have 1.
  explicit FairQueue(std::map<std::string, int32_t> tenant_weights = {});

  // REQUIRES: `id` is not in the queue; tokens > 0.
  void Push(const FairFlow& flow, uint64_t id, int64_t tokens);
  // Who goes next. None: nobody waits, or only parked tenants do.
  std::optional<uint64_t> Front() const;
  // Takes it out and charges its tokens. REQUIRES: there is one.
  uint64_t Pop();
  // False: it was not there. Nothing is charged.
  bool Remove(uint64_t id);
  // A turn that was charged used more tokens or, below 0, fewer.
  void Correct(const FairFlow& flow, int64_t tokens);
  // The tenant's turns keep their order and don't go. While parked it earns nothing.
  void Park(const std::string& tenant);
  void Unpark(const std::string& tenant);

  size_t size(TurnPriority priority) const { return ClassOf(priority).turns; }
  // Names that it remembers, for tests: none while it is empty.
  size_t names() const;

 private:
  struct Item {
    uint64_t id;
    int64_t tokens;
  };
  // A class, tenant or user has children, a session has items.
  struct Node {
    FairLevel level;
    std::map<std::string, std::unique_ptr<Node>> children;
    std::deque<Item> items;
    bool empty() const { return children.empty() && items.empty(); }
  };
  struct Class {
    Node tenants;
    size_t turns = 0;
  };
  using Path = std::span<const std::string>;

  const Class& ClassOf(TurnPriority priority) const {
    return priority == TurnPriority::kBatch ? batch_ : interactive_;
  }
  Class& ClassOf(TurnPriority priority) {
    return priority == TurnPriority::kBatch ? batch_ : interactive_;
  }
  int32_t Weight(Path path) const;  // of what it leads to first
  bool Parked(Path path) const;
  void Push(Node& node, Path path, Item item);
  static const Item* Front(const Node& node);
  static Item Pop(Node& node);
  bool Remove(Node& node, Path path, uint64_t id);
  void Correct(Node& node, Path path, int64_t tokens);
  bool BatchIsDue() const;

  const std::map<std::string, int32_t> tenant_weights_;
  Class interactive_, batch_;
  int64_t batch_earned_ = 0;  // tokens of interactive turns that went while a batch turn waited
  std::set<std::string> parked_;
  std::map<uint64_t, FairFlow> flows_;  // of what waits
};

}  // namespace tenuto

#include "schedule/fair_queue.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace tenuto {
namespace {

// Tenant, user, session: what is left of a path tells how deep it is.
constexpr size_t kParts = 3;

std::array<std::string, kParts> PathOf(const FairFlow& flow) {
  return {flow.tenant, flow.user, flow.session};
}

}  // namespace

FairQueue::FairQueue(std::map<std::string, int32_t> tenant_weights)
    : tenant_weights_(std::move(tenant_weights)) {}

int32_t FairQueue::Weight(Path path) const {
  if (path.size() < kParts) return 1;
  const auto weight = tenant_weights_.find(path.front());
  return weight == tenant_weights_.end() ? 1 : weight->second;
}

bool FairQueue::Parked(Path path) const {
  return path.size() == kParts && parked_.contains(path.front());
}

void FairQueue::Push(const FairFlow& flow, uint64_t id, int64_t tokens) {
  TENUTO_CHECK(tokens > 0);
  TENUTO_CHECK(flows_.emplace(id, flow).second);
  Class& of = ClassOf(flow.priority);
  // What was earned is for turns that waited then.
  if (batch_.turns == 0) batch_earned_ = 0;
  Push(of.tenants, PathOf(flow), {id, tokens});
  ++of.turns;
}

void FairQueue::Push(Node& node, Path path, Item item) {
  if (path.empty()) {
    node.items.push_back(item);
    return;
  }
  std::unique_ptr<Node>& child = node.children[path.front()];
  if (child == nullptr) {
    child = std::make_unique<Node>();
    if (!Parked(path)) node.level.Wake(path.front(), Weight(path));
  }
  Push(*child, path.subspan(1), item);
}

const FairQueue::Item* FairQueue::Front(const Node& node) {
  if (!node.items.empty()) return &node.items.front();
  const std::string* next = node.level.Next();
  return next == nullptr ? nullptr : Front(*node.children.at(*next));
}

bool FairQueue::BatchIsDue() const {
  const Item* batch = Front(batch_.tenants);
  if (batch == nullptr) return false;
  return Front(interactive_.tenants) == nullptr || batch_earned_ >= batch->tokens * kBatchShare;
}

std::optional<uint64_t> FairQueue::Front() const {
  const Item* front = Front(BatchIsDue() ? batch_.tenants : interactive_.tenants);
  return front == nullptr ? std::nullopt : std::optional(front->id);
}

uint64_t FairQueue::Pop() {
  const bool batch = BatchIsDue();
  Class& of = batch ? batch_ : interactive_;
  const bool batch_waits = Front(batch_.tenants) != nullptr;
  const Item item = Pop(of.tenants);
  if (batch) {
    batch_earned_ = std::max<int64_t>(0, batch_earned_ - item.tokens * kBatchShare);
  } else if (batch_waits) {
    batch_earned_ += item.tokens;
  }
  --of.turns;
  flows_.erase(item.id);
  return item.id;
}

FairQueue::Item FairQueue::Pop(Node& node) {
  if (!node.items.empty()) {
    const Item item = node.items.front();
    node.items.pop_front();
    return item;
  }
  const std::string* next = node.level.Next();
  TENUTO_CHECK(next != nullptr);
  const std::string name = *next;
  const auto child = node.children.find(name);
  const Item item = Pop(*child->second);
  node.level.Charge(name, item.tokens);
  if (child->second->empty()) {
    node.level.Sleep(name);
    node.children.erase(child);
  }
  return item;
}

bool FairQueue::Remove(uint64_t id) {
  const auto found = flows_.find(id);
  if (found == flows_.end()) return false;
  const FairFlow flow = found->second;
  flows_.erase(found);
  Class& of = ClassOf(flow.priority);
  TENUTO_CHECK(Remove(of.tenants, PathOf(flow), id));
  --of.turns;
  return true;
}

bool FairQueue::Remove(Node& node, Path path, uint64_t id) {
  if (path.empty()) {
    return std::erase_if(node.items, [id](const Item& item) { return item.id == id; }) > 0;
  }
  const auto child = node.children.find(path.front());
  if (child == node.children.end() || !Remove(*child->second, path.subspan(1), id)) return false;
  if (!child->second->empty()) return true;
  if (!Parked(path)) node.level.Sleep(path.front());
  node.children.erase(child);
  return true;
}

void FairQueue::Correct(const FairFlow& flow, int64_t tokens) {
  Correct(ClassOf(flow.priority).tenants, PathOf(flow), tokens);
}

void FairQueue::Correct(Node& node, Path path, int64_t tokens) {
  if (path.empty()) return;
  node.level.Correct(path.front(), Weight(path), tokens);
  const auto child = node.children.find(path.front());
  if (child != node.children.end()) Correct(*child->second, path.subspan(1), tokens);
}

void FairQueue::Park(const std::string& tenant) {
  if (!parked_.insert(tenant).second) return;
  for (Class* of : {&interactive_, &batch_})
    if (of->tenants.children.contains(tenant)) of->tenants.level.Sleep(tenant);
}

void FairQueue::Unpark(const std::string& tenant) {
  if (parked_.erase(tenant) == 0) return;
  const auto path = PathOf({TurnPriority::kInteractive, tenant, "", ""});
  for (Class* of : {&interactive_, &batch_})
    if (of->tenants.children.contains(tenant)) of->tenants.level.Wake(tenant, Weight(path));
}

size_t FairQueue::names() const {
  const auto count = [](const auto& self, const Node& node) -> size_t {
    size_t sum = node.level.children();
    for (const auto& [name, child] : node.children)
      sum += self(self, *child);
    return sum;
  };
  return count(count, interactive_.tenants) + count(count, batch_.tenants);
}

}  // namespace tenuto

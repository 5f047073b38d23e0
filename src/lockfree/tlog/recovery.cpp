#include "lockfree/tlog/recovery.h"

#include <algorithm>

#include "lockfree/tlog/tlog.h"

namespace perdure::lockfree {
namespace {
constexpr auto relaxed = std::memory_order_relaxed;
}

TLogRecovery::TLogRecovery(NodeSlab& slab, Link& head, std::span<Log> logs)
    : slab_(slab), head_(head), logs_(logs), found_(slab.nodes(), Found::no) {}

const char* TLogRecovery::run() {
  for (const Log& log : logs_)
    if (log.change() != Change::none && slab_.node_at(log.node.load(relaxed)) == no_node)
      return "a log names a place where no node is";
  mark_removals();
  if (!follow(offset_in(head_.load(relaxed)), Found::by_link))
    return "a link leads to where no node is";
  for (const Log& log : logs_) {
    const std::uint64_t offset = log.node.load(relaxed);
    if (log.change() != Change::insertion || !counts(log)) continue;
    // A marked one was durably linked before it was marked (T4), and its link may be old.
    if (is_marked(slab_.at(offset).next.load(relaxed))) continue;
    if (!follow(offset, Found::by_log)) return "a link leads to where no node is";
  }
  std::vector<Member> members;
  if (const char* wrong = choose(members)) return wrong;
  relink(members);
  mark_free_nodes();
  clear_logs();
  return nullptr;
}

bool TLogRecovery::counts(const Log& log) const noexcept {
  return generation_of(slab_.at(log.node.load(relaxed))) == log.generation();
}

void TLogRecovery::mark_removals() {
  for (const Log& log : logs_) {
    if (log.change() != Change::removal || !counts(log)) continue;
    Link& next = slab_.at(log.node.load(relaxed)).next;
    if (is_marked(next.load(relaxed))) continue;
    pm::store_persist(next, next.load(relaxed) | marked);
  }
}

bool TLogRecovery::follow(std::uint64_t offset, Found found) {
  while (offset != 0) {
    const std::uint32_t node = slab_.node_at(offset);
    if (node == no_node) return false;
    const Found before = found_[node];
    found_[node] = std::max(before, found);
    if (before != Found::no) return true;
    offset = offset_in(slab_.at(offset).next.load(relaxed));
    found = Found::by_link;
  }
  return true;
}

/// Of two nodes with one key one lost the race and was never linked: the log alone speaks for it.
const char* TLogRecovery::choose(std::vector<Member>& members) const {
  for (std::uint32_t node = 0; node < slab_.nodes(); ++node) {
    if (found_[node] == Found::no) continue;
    const std::uint64_t offset = slab_.offset_of(node);
    const Node& words = slab_.at(offset);
    if (!is_marked(words.next.load(relaxed)))
      members.push_back({words.key.load(relaxed), offset, found_[node]});
  }
  std::ranges::sort(members, [](const Member& a, const Member& b) {
    return a.key != b.key ? a.key < b.key : a.found > b.found;
  });
  const auto same = [](const Member& a, const Member& b) { return a.key == b.key; };
  const auto both_linked = [&](const Member& a, const Member& b) {
    return same(a, b) && b.found == Found::by_link;
  };
  if (std::ranges::adjacent_find(members, both_linked) != members.end())
    return "a key is in it twice";
  members.erase(std::unique(members.begin(), members.end(), same), members.end());
  return nullptr;
}

/// From right to left: what a changed link leads to is linked already.
void TLogRecovery::relink(std::span<const Member> members) {
  std::uint64_t next = 0;
  for (const Member& member : members)
    static_cast<void>(slab_.free_nodes().claim(slab_.node_at(member.offset)));
  for (std::size_t i = members.size(); i-- > 0;) {
    Node& node = slab_.at(members[i].offset);
    if (node.next.load(relaxed) != next) pm::store_persist(node.next, next);
    settle(node);
    next = members[i].offset;
  }
  if (head_.load(relaxed) != next) pm::store_persist(head_, next);
}

void TLogRecovery::mark_free_nodes() {
  bool any = false;
  for (std::uint32_t node = 0; node < slab_.nodes(); ++node) {
    if (!slab_.free_nodes().is_free(node)) continue;
    Link& next = slab_.at(slab_.offset_of(node)).next;
    if (is_marked(next.load(relaxed))) continue;
    next.store(marked, std::memory_order_release);
    pm::flush(&next, sizeof next);
    any = true;
  }
  if (any) pm::fence();
}

void TLogRecovery::clear_logs() {
  bool any = false;
  for (Log& log : logs_) {
    if (log.change() == Change::none) continue;
    log.end();
    any = true;
  }
  if (any) pm::fence();
}

}  // namespace perdure::lockfree

// The lists as the explorer's recorder sees them: what an operation flushes and fences is what its
// design says, and a thread that stops at any of its steps holds up no other.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crash/image.h"
#include "crash/recorder.h"
#include "crash/report.h"
#include "crash/shrink.h"
#include "crash/test_operations.h"
#include "crash/toys/published_lists.h"
#include "crash/ways.h"
#include "index/registry.h"
#include "pm/pm.h"

namespace perdure::crash::of_lists {
namespace {

constexpr std::size_t pool_bytes = std::size_t{512} << 10;

enum class Kind : std::uint8_t { insert, remove, contains };
struct Call {
  Kind kind;
  std::uint64_t key;
};

void use(const IndexInfo& info, bool eadr) {
  if (eadr || info.needs_eadr)
    pm::configure(pm::Durability::eadr);
  else
    EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
}

/// A list with the keys 10, 20 and 30, in memory of its own.
class ListSubject {
 public:
  explicit ListSubject(const std::string& name, bool eadr = false)
      : info_(**IndexRegistry::find(name)), memory_(pool_bytes) {
    use(info_, eadr);
    pool_ = std::move(Pool::create_in(memory_.span())).value();
    IndexPlace place;
    place.pool = pool_.get();
    place.huge_pages = false;
    place.options.set("nodes", 64);
    list_ = std::move(create_index<IntegerKeys>(info_, place)).value();
    for (const std::uint64_t key : {10U, 20U, 30U}) EXPECT_EQ(list_->insert(key, key), Outcome::ok);
  }
  ~ListSubject() { pm::configure(pm::Durability::adr); }

  Outcome perform(const Call& call) const {
    std::uint64_t value = 0;
    switch (call.kind) {
      case Kind::insert:
        return list_->insert(call.key, call.key);
      case Kind::remove:
        return list_->remove(call.key);
      case Kind::contains:
        return list_->lookup(call.key, value);
    }
    return Outcome::invalid;
  }
  Cost cost_of(const Call& call) const {
    Outcome outcome{};
    const Cost cost = crash::cost_of(memory_, [&] { outcome = perform(call); });
    EXPECT_EQ(outcome, Outcome::ok);
    return cost;
  }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  [[nodiscard]] IntegerIndex& list() const { return *list_; }

 private:
  const IndexInfo& info_;
  Memory memory_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<IntegerIndex> list_;
};

struct CostRow {
  const char* name;
  Cost insert;
  Cost remove;
  Cost contains;
};

TEST(Lists, FlushAndFenceAsTheirTableSays) {
  for (const CostRow& row : {CostRow{"list:linkfree", {1, 1}, {1, 1}, {0, 0}},
                             CostRow{"list:soft", {1, 1}, {1, 1}, {0, 0}},
                             CostRow{"hashset:soft", {1, 1}, {1, 1}, {0, 0}},
                             CostRow{"list:tlog", {4, 2}, {4, 2}, {0, 0}},
                             CostRow{"list:logfree", {0, 1}, {0, 1}, {0, 0}},
                             CostRow{"list:link_and_persist", {2, 2}, {2, 2}, {0, 0}},
                             CostRow{"list:mutexlist", {2, 2}, {1, 1}, {0, 0}}}) {
    SCOPED_TRACE(row.name);
    const ListSubject subject(row.name);
    for (const std::uint64_t key : {5U, 25U, 35U}) {
      EXPECT_EQ(subject.cost_of({Kind::insert, key}), row.insert);
      EXPECT_EQ(subject.cost_of({Kind::contains, key}), row.contains);
      EXPECT_EQ(subject.cost_of({Kind::remove, key}), row.remove);
      EXPECT_EQ(subject.cost_of({Kind::insert, key}), row.insert) << "with a node used before";
    }
  }
}

TEST(Lists, FlushNothingUnderEadr) {
  for (const char* name : {"list:linkfree", "list:soft", "list:tlog", "list:link_and_persist",
                           "list:nvtraverse", "list:flit", "list:mutexlist", "hashset:soft"}) {
    SCOPED_TRACE(name);
    const ListSubject subject(name, true);
    EXPECT_EQ(subject.cost_of({Kind::insert, 15}).flushes, 0U);
    EXPECT_EQ(subject.cost_of({Kind::remove, 15}).flushes, 0U);
  }
}

TEST(Lists, ALookupThatFindsANodeDurableFlushesNothingEvenOfTheTransformations) {
  EXPECT_EQ(ListSubject("list:flit").cost_of({Kind::contains, 20}), Cost{});
  EXPECT_GT(ListSubject("list:nvtraverse").cost_of({Kind::contains, 20}).flushes, 0U);
}

std::optional<bool> finishes_without(const std::string& name, const Call& stopped,
                                     std::uint64_t step) {
  const ListSubject subject(name);
  return crash::finishes_without(subject.memory(), step, [&](unsigned thread, Recorder& recorder) {
    const std::vector<Call> others{{Kind::contains, 20}, {Kind::insert, 20},  {Kind::insert, 15},
                                   {Kind::remove, 20},   {Kind::insert, 20},  {Kind::remove, 15},
                                   {Kind::remove, 10},   {Kind::contains, 15}};
    for (const Call& call : thread == 0 ? std::vector{stopped} : others) {
      recorder.called(0);
      static_cast<void>(subject.perform(call));
      recorder.returned(0);
    }
  });
}

/// At how many of the steps of an operation its thread can stop without holding up another.
void expect_lock_free(const std::string& name, bool lock_free) {
  SCOPED_TRACE(name);
  unsigned held_up = 0;
  unsigned steps = 0;
  for (const Call& stopped : {Call{Kind::insert, 15}, Call{Kind::remove, 20},
                              Call{Kind::insert, 20}, Call{Kind::contains, 20}})
    for (std::uint64_t step = 1;; ++step) {
      const std::optional<bool> finished = finishes_without(name, stopped, step);
      if (!finished) break;
      ++steps;
      held_up += *finished ? 0U : 1U;
      ASSERT_LT(step, 10'000U);
    }
  EXPECT_GT(steps, 40U);
  if (lock_free)
    EXPECT_EQ(held_up, 0U);
  else
    EXPECT_GT(held_up, 0U);
}

TEST(Lists, GoOnWhereverAThreadStops) {
  for (const char* name : {"list:linkfree", "list:soft", "list:tlog", "list:logfree",
                           "list:link_and_persist", "list:flit", "list:nvtraverse", "hashset:soft"})
    expect_lock_free(name, true);
}

TEST(Lists, AsPublishedAreRefutedByThreeOperations) {
  for (const IndexInfo& info : published_lists()) {
    SCOPED_TRACE(info.name);
    use(info, false);
    Plan plan;
    plan.subject.info = &info;
    plan.subject.options = small_options(plan.subject.declared());
    plan.subject.pool_bytes = std::size_t{1} << 20;
    plan.threads = 2;
    plan.chosen.threads = true;
    plan.seconds = 60;
    Workspaces all(HeapKind::slab);
    const Summary summary = explore_in_all_ways(plan, all, [](const Summary&) {});
    ASSERT_TRUE(summary.violation.has_value());
    EXPECT_LT(summary.seconds, 30);
    Verdict verdict;
    verdict.violation = summary.violation;
    const Case small =
        shrink(*summary.failed, verdict, all.of(summary.failed->subject.pool_bytes), 60);
    EXPECT_LE(called_operations(verdict), 1U + 3U) << verdict.violation->what;  // and the creation
    EXPECT_EQ(verdict.violation->oracle, Oracle::linearizability);
    EXPECT_EQ(small.program.threads, 2U);
  }
}

// Of a list of 64 nodes, most of which are taken; a thread that is stopped for ever holds back what
// the others remove.
TEST(Lists, MayBeFullOfWhatAStoppedThreadMayStillRead) {
  Plan plan;
  plan.subject.info = *IndexRegistry::find("list:soft");
  use(*plan.subject.info, false);
  plan.subject.options = small_options(plan.subject.declared());
  plan.subject.options.set("nodes", 64);
  plan.subject.pool_bytes = std::size_t{1} << 20;
  plan.threads = 2;
  plan.keys = 64;
  plan.preload = 40;
  plan.operations = 240;
  plan.chosen = {.threads = true, .keys = true, .preload = true, .operations = true};
  plan.seconds = 600;
  plan.most_states = 20'000;
  Workspaces all(HeapKind::slab);
  const Summary beside = explore_in_all_ways(plan, all, [](const Summary&) {});
  EXPECT_FALSE(beside.violation.has_value()) << beside.violation->what;
  EXPECT_GT(beside.stops, 100U);
}

TEST(Lists, AreSeenToWaitWhereTheyHaveALock) { expect_lock_free("list:mutexlist", false); }

}  // namespace
}  // namespace perdure::crash::of_lists

// The registered queues: the explorer finds nothing in those that are lock-free, what an operation
// flushes and fences is what its table says, and a thread that stops at any of its steps holds up
// no other.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "crash/image.h"
#include "crash/search.h"
#include "crash/test_operations.h"
#include "crash/workspace.h"
#include "lockfree/base/queue_registry.h"
#include "pm/pm.h"

namespace perdure::crash {
namespace {

constexpr std::size_t pool_bytes = std::size_t{512} << 10;
constexpr std::uint64_t payload_bytes = 300;

/// An operation of a script: pushes `payload`, or pops.
struct Call {
  bool pushes;
  std::string payload{};
  PushTag tag{};  ///< number 0: none
};
Call push(std::string payload) { return {.pushes = true, .payload = std::move(payload)}; }
Call push(std::string payload, std::uint32_t producer, std::uint64_t number) {
  return {.pushes = true, .payload = std::move(payload), .tag = {producer, number}};
}
Call pop() { return {.pushes = false}; }
/// Streamed, and not a multiple of a word.
std::string large(char letter) { return std::string(payload_bytes - 3, letter); }

Outcome perform(DurableQueue& queue, const Call& call, std::string& payload) {
  if (!call.pushes) return queue.pop(payload);
  return call.tag.number == 0 ? queue.push(call.payload) : queue.push(call.payload, call.tag);
}

struct Script {
  const char* name;
  std::uint64_t slots;
  std::vector<Call> before;                ///< by one thread, then all is durable
  std::vector<std::vector<Call>> threads;  ///< what each does then
};

/// A queue in memory of its own, and what its threads do.
class QueueUnderTest {
 public:
  QueueUnderTest(const std::string& name, std::uint64_t slots, std::uint64_t payload_path = 0)
      : info_(**QueueRegistry::find(name)), memory_(pool_bytes) {
    place_.options.set("slots", slots);
    if (payload_path != 0) place_.options.set("payload", payload_path);
    place_.options.set("payload_bytes", payload_bytes);
    pool_ = std::move(Pool::create_in(memory_.span())).value();
    place_.pool = pool_.get();
    queue_ = std::move(create_queue(info_, place_)).value();
  }

  [[nodiscard]] DurableQueue& queue() const { return *queue_; }
  [[nodiscard]] const Memory& memory() const { return memory_; }

 private:
  const QueueInfo& info_;
  Memory memory_;
  QueuePlace place_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<DurableQueue> queue_;
};

void use(Domain domain) {
  if (domain == Domain::eadr)
    pm::configure(pm::Durability::eadr);
  else
    EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
}

// Every registered one, without another line when one is added. For seconds each: the stage `crash`
// of tools/run_tests.py goes on.
TEST(Queues, NoneThatIsLockFreeLosesOrInventsAnything) {
  Workspace workspace(std::size_t{1} << 20);
  unsigned explored = 0;
  for (const QueueInfo& info : QueueRegistry::all()) {
    if (info.recover == nullptr || info.progress != perdure::Progress::lock_free ||
        !info.works_on(HeapKind::slab))
      continue;
    for (const Domain domain : {Domain::adr, Domain::eadr})
      for (const unsigned threads : {2U, 3U}) {
        use(domain);
        Plan plan;
        plan.subject.queue = &info;
        plan.subject.options = small_options(plan.subject.declared());
        plan.threads = threads;
        plan.domain = domain;
        plan.seconds = 1;
        const Summary summary = explore_many(plan, workspace, [](const Summary&) {});
        EXPECT_GT(summary.coverage.states, 0U) << info.full_name();
        EXPECT_FALSE(summary.violation.has_value())
            << info.full_name() << ", " << name_of(domain) << ", " << threads
            << " threads: " << summary.violation->what;
        ++explored;
      }
  }
  use(Domain::adr);
  EXPECT_GE(explored, 12U);
}

class Costs {
 public:
  explicit Costs(const std::string& name, std::uint64_t payload_path = 0)
      : subject_(name, 4, payload_path) {}

  Cost of(const Call& call) {
    std::string payload;
    return cost_of(subject_.memory(), [&] { perform(subject_.queue(), call, payload); });
  }

 private:
  QueueUnderTest subject_;
};

struct CostRow {
  const char* name;
  Domain domain;
  Cost push;        ///< of a short payload
  Cost large_push;  ///< of one that is streamed
  Cost pop;
  Cost empty;  ///< the first time
};

// The table of ring/design.md and optunlinkedq/design.md.
TEST(Queues, FlushAndFenceAsTheirTablesSay) {
  for (const CostRow& row :
       {CostRow{"ring:txfree", Domain::adr, {1, 1}, {1, 2}, {1, 1}, {1, 1}},
        CostRow{"ring:txfree", Domain::eadr, {0, 0}, {0, 1}, {0, 0}, {0, 0}},
        CostRow{"ring:tx", Domain::adr, {4, 3}, {4, 4}, {3, 3}, {3, 3}},
        CostRow{"ring:tx", Domain::eadr, {0, 1}, {0, 2}, {0, 1}, {0, 1}},
        CostRow{"ring:ticket", Domain::adr, {1, 1}, {1, 2}, {1, 1}, {0, 0}},
        CostRow{"optunlinkedq", Domain::adr, {1, 1}, {1, 2}, {0, 1}, {0, 0}},
        CostRow{"optunlinkedq", Domain::eadr, {0, 0}, {0, 1}, {0, 0}, {0, 0}}}) {
    SCOPED_TRACE(std::string(row.name) + " " + name_of(row.domain));
    use(row.domain);
    Costs costs(row.name);
    EXPECT_EQ(costs.of(push("short")), row.push);
    EXPECT_EQ(costs.of(push("short", 3, 1)), row.push);
    EXPECT_EQ(costs.of(push(large('x'))), row.large_push);
    for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(costs.of(pop()), row.pop);
    EXPECT_EQ(costs.of(pop()), row.empty);
    EXPECT_EQ(costs.of(pop()), Cost{});
  }
  use(Domain::adr);
}

// The option `payload`: five lines, and a fence that waits for them.
TEST(Queues, WritePayloadsBackAsTheyAreTold) {
  constexpr std::uint64_t writes_back = 1;
  constexpr std::uint64_t keeps = 2;
  for (const auto& [name, domain, path, expected] :
       {std::tuple{"ring:txfree", Domain::adr, writes_back, Cost{6, 2}},
        std::tuple{"ring:txfree", Domain::eadr, writes_back, Cost{5, 1}},
        std::tuple{"ring:txfree", Domain::eadr, keeps, Cost{0, 0}},
        std::tuple{"ring:tx", Domain::adr, writes_back, Cost{9, 4}},
        std::tuple{"ring:tx", Domain::eadr, writes_back, Cost{5, 2}},
        std::tuple{"ring:tx", Domain::eadr, keeps, Cost{0, 1}}}) {
    SCOPED_TRACE(std::string(name) + " " + name_of(domain) + " " + std::to_string(path));
    use(domain);
    EXPECT_EQ(Costs(name, path).of(push(large('x'))), expected);
  }
  use(Domain::adr);
}

// What is written back is all that makes a payload durable under adr.
TEST(Queues, LoseNoPayloadThatIsWrittenBack) {
  Workspace workspace(std::size_t{1} << 20);
  for (const char* const name : {"ring:txfree", "ring:tx"}) {
    use(Domain::adr);
    Plan plan;
    plan.subject.queue = *QueueRegistry::find(name);
    plan.subject.options = small_options(plan.subject.declared());
    plan.subject.options.set("payload", 1);
    plan.threads = 2;
    plan.seconds = 1;
    const Summary summary = explore_many(plan, workspace, [](const Summary&) {});
    EXPECT_GT(summary.coverage.states, 0U) << name;
    EXPECT_FALSE(summary.violation.has_value()) << name << ": " << summary.violation->what;
  }
}

std::optional<bool> finishes_without(const std::string& name, const Script& script,
                                     std::uint64_t step) {
  QueueUnderTest subject(name, script.slots);
  std::string payload;
  for (const Call& call : script.before)
    EXPECT_EQ(perform(subject.queue(), call, payload), Outcome::ok);
  return crash::finishes_without(subject.memory(), step, [&](unsigned thread, Recorder& recorder) {
    std::string popped;
    for (const Call& call : script.threads[thread]) {
      recorder.called(0);
      perform(subject.queue(), call, popped);
      recorder.returned(0);
    }
  });
}

std::vector<Script> stopping_scripts() {
  const std::vector<Call> others{push("a"), pop(),     pop(), pop(),
                                 push("b"), push("c"), pop(), pop()};
  return {{"a push stops", 4, {push("x")}, {{push("s", 1, 1)}, others}},
          {"a push of a large payload stops", 4, {}, {{push(large('s'))}, others}},
          {"a pop stops", 4, {push("x", 1, 1), push("y")}, {{pop()}, others}},
          {"a pop of nothing stops", 4, {}, {{pop()}, others}},
          {"a push that finds no slot stops",
           4,
           {push("w"), push("x"), push("y"), push("z")},
           {{push("s")}, {pop(), push("a"), pop(), pop(), pop(), pop(), pop()}}}};
}

TEST(Queues, AThreadThatStopsForEverHoldsUpNoOther) {
  for (const char* const name :
       {"ring:volatile", "ring:txfree", "ring:tx", "optunlinkedq", "boostqueue"})
    for (const Domain domain : {Domain::adr, Domain::eadr}) {
      use(domain);
      for (const Script& script : stopping_scripts()) {
        unsigned steps = 0;
        for (std::optional<bool> finished = true; finished; ++steps) {
          finished = finishes_without(name, script, steps + 1);
          ASSERT_NE(finished, false) << name << ", " << script.name << ", step " << steps + 1;
        }
        EXPECT_GT(steps, 1U) << name << ", " << script.name;
      }
    }
  use(Domain::adr);
}

// The test above can fail: the published design does.
TEST(Queues, AThreadThatStopsHoldsUpTheTicketRing) {
  const std::vector<Script> all = stopping_scripts();
  unsigned waits = 0;
  for (std::uint64_t step = 1;; ++step) {
    const std::optional<bool> finished = finishes_without("ring:ticket", all.front(), step);
    if (!finished) break;
    waits += *finished ? 0U : 1U;
  }
  EXPECT_GT(waits, 0U);
}

}  // namespace
}  // namespace perdure::crash

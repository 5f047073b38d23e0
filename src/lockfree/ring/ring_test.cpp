// The ring in all variants: order, limits, threads, power cuts, detectability, bad input.
#include "lockfree/ring/ring.h"

#include <gtest/gtest.h>

#include "index/common/index_root.h"
#include "lockfree/slots/test_queue.h"
#include "pool/test_support.h"

namespace perdure::lockfree {
namespace {

using lockfree_test::agree_with_a_model;
using lockfree_test::expect_content;
using lockfree_test::holds;
using lockfree_test::move_between_threads;
using lockfree_test::options_of;
using lockfree_test::Pages;
using lockfree_test::payload_of;
using lockfree_test::TestQueue;

constexpr std::array all_modes{"ring:volatile", "ring:tx", "ring:txfree"};
constexpr std::array persistent_modes{"ring:tx", "ring:txfree"};

/// Runs a test under each durability, and leaves the process with the first.
constexpr std::array durabilities{pm::Durability::eadr, pm::Durability::none, pm::Durability::adr};

TEST(Ring, AgreesWithAModelThroughPowerCuts) {
  for (const char* const mode : all_modes)
    for (const pm::Durability durability : durabilities)
      for (const auto& [slots, bytes] :
           {std::pair{1U, 40U}, {2U, 0U}, {5U, 41U}, {64U, 700U}, {300U, 5000U}}) {
        SCOPED_TRACE(std::string(mode) + " " + pm::name_of(durability) + " " +
                     std::to_string(slots));
        pm::configure(durability);
        TestQueue queue(mode, options_of(slots, bytes), 4 << 20);
        ASSERT_NO_FATAL_FAILURE(agree_with_a_model(queue, 1500));
      }
  pm::configure(pm::Durability::adr);
}

TEST(Ring, TakesPayloadsOfEveryLength) {
  for (const char* const mode : all_modes) {
    TestQueue queue(mode, options_of(4, max_payload_bytes), 2 << 20);
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{40}, std::size_t{41}, std::size_t{255},
          std::size_t{256}, std::size_t{257}, std::size_t{4096}, max_payload_bytes - 1,
          max_payload_bytes})
      for (const std::size_t skipped : {0U, 3U}) {  // of an unaligned source, too
        const std::string source = payload_of(bytes, bytes + skipped);
        ASSERT_EQ(queue->push(std::string_view(source).substr(skipped)), Outcome::ok);
        if (queue.persists()) {
          ASSERT_TRUE(holds(queue.crash()));
        }
        ASSERT_NO_FATAL_FAILURE(expect_content(*queue, {source.substr(skipped)}));
      }
    EXPECT_EQ(queue->push(std::string(max_payload_bytes + 1, 'x')), Outcome::invalid);
  }
}

TEST(Ring, IsFullAndEmptyAgainAndAgain) {
  for (const char* const mode : all_modes) {
    TestQueue queue(mode, options_of(7, 16));
    std::uint64_t stamp = 0;
    for (unsigned round = 0; round < 400; ++round) {
      std::deque<std::string> model;
      while (model.size() < 7) {
        model.push_back(std::to_string(++stamp));
        ASSERT_EQ(queue->push(model.back(), {round % 5, stamp}), Outcome::ok);
      }
      ASSERT_EQ(queue->push("more"), Outcome::out_of_space);
      ASSERT_NO_FATAL_FAILURE(expect_content(*queue, model));
    }
  }
}

TEST(Ring, LosesAndDoublesNothingBetweenThreads) {
  for (const char* const mode : all_modes)
    for (const unsigned slots : {1U, 3U, 100U}) {
      SCOPED_TRACE(std::string(mode) + " " + std::to_string(slots));
      TestQueue queue(mode, options_of(slots, 300));
      ASSERT_NO_FATAL_FAILURE(move_between_threads(*queue, 3, 3, 1500, true));
      ASSERT_NO_FATAL_FAILURE(move_between_threads(*queue, 2, 2, 500, false));
      if (!queue.persists()) continue;
      ASSERT_TRUE(holds(queue.crash()));
      for (std::uint32_t producer = 0; producer < 3; ++producer)
        ASSERT_EQ(queue->last_push(producer), 1500U);
      ASSERT_NO_FATAL_FAILURE(expect_content(*queue, {}));
    }
}

// M3, F2: whatever becomes of the slot in which a producer's newest push was.
TEST(Ring, KnowsTheLastPushOfEachProducer) {
  for (const char* const mode : persistent_modes) {
    TestQueue queue(mode, options_of(3, 100));
    std::map<std::uint32_t, std::uint64_t> last;
    Rng rng(11);
    std::uint64_t number = 0;
    std::string payload;
    for (unsigned i = 0; i < 3000; ++i) {
      const auto producer =
          static_cast<std::uint32_t>(rng.below(4) == 0 ? rng.below(pm::max_threads) : rng.below(3));
      if (rng.below(2) == 0) {
        if (queue->push("payload", {producer, ++number}) == Outcome::ok) last[producer] = number;
      } else if (rng.below(8) == 0) {
        (void)queue->push("without a tag");
      } else {
        (void)queue->pop(payload);
      }
      if (i % 150 == 0) {
        ASSERT_TRUE(holds(queue.crash()));
      }
      if (i % 50 == 0) {
        ASSERT_TRUE(holds(queue->check_invariants()));
      }
      for (const auto& [each, pushed] : last) ASSERT_EQ(queue->last_push(each), pushed) << i;
    }
    EXPECT_EQ(queue->last_push(pm::max_threads), 0U);
    EXPECT_EQ(queue->push("x", {pm::max_threads, 1}), Outcome::invalid);
    EXPECT_EQ(queue->push("x", {1, 0}), Outcome::invalid);
  }
}

// F1: a withheld slot is remembered with the low bits of its number, which turn over.
TEST(Ring, KnowsTheLastPushWhenItsNumberTurnsOver) {
  for (const char* const mode : persistent_modes) {
    TestQueue queue(mode, options_of(4, 100));
    std::string payload;
    constexpr std::uint64_t turn = std::uint64_t{1} << 44;
    for (const std::uint64_t number : {turn - 1, turn}) {
      ASSERT_EQ(queue->push("tagged", {1, number}), Outcome::ok);
      ASSERT_EQ(queue->pop(payload), Outcome::ok);
    }
    while (queue->push("in every slot that is free") == Outcome::ok) {
    }
    EXPECT_EQ(queue->size(), 4U);
    EXPECT_EQ(queue->last_push(1), turn);
    ASSERT_TRUE(holds(queue.crash()));
    EXPECT_EQ(queue->last_push(1), turn);
  }
}

// F2: slots withheld for producers that push no more are used again.
TEST(Ring, IsNotFullOfSlotsThatAreOnlyRemembered) {
  for (const char* const mode : persistent_modes) {
    TestQueue queue(mode, options_of(2, 8));
    std::string payload;
    for (std::uint32_t producer = 0; producer < 200; ++producer) {
      ASSERT_EQ(queue->push("a", {producer, 5}), Outcome::ok);
      ASSERT_EQ(queue->push("b", {producer, 6}), Outcome::ok);
      ASSERT_EQ(queue->pop(payload), Outcome::ok);
      ASSERT_EQ(queue->pop(payload), Outcome::ok);
      if (producer % 20 == 0) {
        ASSERT_TRUE(holds(queue.crash()));
      }
    }
    for (std::uint32_t producer = 0; producer < 200; ++producer)
      EXPECT_EQ(queue->last_push(producer), 6U) << producer;
  }
}

/// Where the image has its parts, from the root on.
struct Parts {
  explicit Parts(const TestQueue& queue, std::byte* memory) {
    IndexRoot root{};
    std::memcpy(&root, memory + queue.pool().roots().front().offset, sizeof root);
    directory = memory + root.head;
    const auto offset = [&](std::size_t chunk) {
      std::uint64_t at = 0;
      std::memcpy(&at, directory + sizeof(Directory) + 8 * chunk, sizeof at);
      return memory + at;
    };
    const bool has_logs = queue.info().mode == "tx";
    marks = reinterpret_cast<Mark*>(offset(0));
    logs = has_logs ? reinterpret_cast<UndoLog*>(offset(1)) : nullptr;
    headers = reinterpret_cast<SlotHeader*>(offset(has_logs ? 2 : 1));
  }
  std::byte* directory;
  Mark* marks;
  UndoLog* logs;
  SlotHeader* headers;
};

// M1, R1: a push that was cut off before its seq was finished never was, whatever its header says.
TEST(Ring, IgnoresAHeaderThatIsUnfinished) {
  for (const char* const mode : persistent_modes) {
    TestQueue queue(mode, options_of(4, 40));
    ASSERT_EQ(queue->push("first", {1, 1}), Outcome::ok);
    ASSERT_EQ(queue->push("second", {1, 2}), Outcome::ok);
    ASSERT_TRUE(holds(queue.crash()));
    const Parts parts(queue, queue.span().data());
    SlotHeader* free = parts.headers;
    while (free->seq.load() != 0) ++free;
    if (parts.logs != nullptr) {  // of the thread that pushed
      UndoLog& log = parts.logs[9];
      std::memset(log.header.data(), 0, log.header.size());
      log.slot = static_cast<std::uint64_t>(free - parts.headers);
      log.old = unfinished;
      log.what.store(static_cast<std::uint64_t>(UndoLog::What::header));
    }
    free->seq.store(unfinished);
    free->len = ~0U;
    free->producer = 1;
    free->number = 3;
    ASSERT_TRUE(holds(queue.crash()));
    EXPECT_EQ(queue->last_push(1), 2U);
    ASSERT_NO_FATAL_FAILURE(expect_content(*queue, {"first", "second"}));
  }
}

// R3: one durable mark covers pops before it whose own marks are not.
TEST(Ring, RecoversBehindTheLargestMark) {
  for (const char* const mode : persistent_modes) {
    TestQueue queue(mode, options_of(8, 40));
    for (const char* const payload : {"a", "b", "c", "d"})
      ASSERT_EQ(queue->push(payload), Outcome::ok);
    const Parts parts(queue, queue.span().data());
    parts.marks[77].seq.store(2);
    ASSERT_TRUE(holds(queue.crash()));
    // R5: what comes now comes after what was there, although a seq is missing.
    ASSERT_EQ(queue->push("e"), Outcome::ok);
    ASSERT_TRUE(holds(queue.crash()));
    ASSERT_NO_FATAL_FAILURE(expect_content(*queue, {"c", "d", "e"}));
  }
}

// R5: a push that is missing leaves a hole, and no pop of what is before it kills what is after it.
TEST(Ring, RecoversAroundHoles) {
  for (const char* const mode : persistent_modes) {
    TestQueue queue(mode, options_of(8, 40));
    for (const char* const payload : {"a", "b", "c", "d", "e"})
      ASSERT_EQ(queue->push(payload), Outcome::ok);
    const Parts parts(queue, queue.span().data());
    for (unsigned i = 0; i < 8; ++i)
      if (parts.headers[i].seq.load() == 4) parts.headers[i].seq.store(unfinished);
    ASSERT_TRUE(holds(queue.crash()));
    std::deque<std::string> model{"a", "b", "c", "e"};
    std::string payload;
    while (!model.empty()) {
      ASSERT_EQ(queue->pop(payload), Outcome::ok);
      ASSERT_EQ(payload, model.front());
      model.pop_front();
      ASSERT_TRUE(holds(queue.crash()));
      ASSERT_EQ(queue->size(), model.size());
    }
  }
}

// An answer "empty" is kept: the mark of a pop that another thread has not made durable is lost.
TEST(Ring, StaysEmptyOnceItHasSaidSo) {
  for (const char* const mode : persistent_modes) {
    TestQueue queue(mode, options_of(8, 40));
    ASSERT_EQ(queue->push("a"), Outcome::ok);
    std::string payload;
    ASSERT_EQ(queue->pop(payload), Outcome::ok);
    const std::size_t here = pm::thread_slot();
    std::thread([&] {
      std::string none;
      EXPECT_NE(pm::thread_slot(), here);
      EXPECT_EQ(queue->pop(none), Outcome::not_found);
    }).join();
    const Parts parts(queue, queue.span().data());
    parts.marks[here].seq.store(0);
    ASSERT_TRUE(holds(queue.crash()));
    ASSERT_NO_FATAL_FAILURE(expect_content(*queue, {}));
  }
}

TEST(Ring, RecoveryWritesNothingUnlessALogIsOpen) {
  for (const char* const mode : persistent_modes) {
    TestQueue queue(mode, options_of(16, 700));
    std::string payload;
    for (std::uint64_t i = 1; i < 40; ++i) {
      ASSERT_EQ(queue->push(payload_of(i, i * 17), {0, i}), Outcome::ok);
      if (i > 9) {
        ASSERT_EQ(queue->pop(payload), Outcome::ok);
      }
    }
    ASSERT_TRUE(holds(queue.crash()));
    std::vector<std::byte> before(queue.span().begin(), queue.span().end());
    ASSERT_TRUE(holds(queue.crash()));
    EXPECT_EQ(std::memcmp(before.data(), queue.span().data(), before.size()), 0);
  }
}

// The pop of a transaction that was not committed is undone; the log of a push that was popped and
// whose slot has another payload undoes nothing.
TEST(Ring, UndoesWhatWasNotCommitted) {
  TestQueue queue("ring:tx", options_of(4, 40));
  ASSERT_EQ(queue->push("a"), Outcome::ok);
  ASSERT_EQ(queue->push("b"), Outcome::ok);
  std::string payload;
  ASSERT_EQ(queue->pop(payload), Outcome::ok);
  const Parts parts(queue, queue.span().data());
  UndoLog& of_pop = parts.logs[200];
  of_pop.slot = pm::thread_slot();
  of_pop.old = 0;
  of_pop.what.store(static_cast<std::uint64_t>(UndoLog::What::mark));
  UndoLog& of_push = parts.logs[201];
  for (unsigned i = 0; i < 4; ++i)
    if (parts.headers[i].seq.load() == 2) of_push.slot = i;
  of_push.old = unfinished | 1;
  of_push.what.store(static_cast<std::uint64_t>(UndoLog::What::header));
  ASSERT_TRUE(holds(queue.crash()));
  ASSERT_NO_FATAL_FAILURE(expect_content(*queue, {"a", "b"}));
}

TEST(Ring, RefusesDamageAndOtherQueues) {
  for (const char* const mode : persistent_modes) {
    const auto code_after = [&](const auto& damage) {
      TestQueue queue(mode, options_of(4, 100));
      EXPECT_EQ(queue->push("a", {1, 1}), Outcome::ok);
      const std::uint64_t root = queue.pool().roots().front().offset;
      const Parts parts(queue, queue.span().data());
      damage(parts, queue.span().data() + root, queue.place());
      const Result<void> result = queue.crash();
      return result.ok() ? ErrorCode::failed : result.error().code;
    };
    const auto pushed = [](const Parts& parts) {
      SlotHeader* header = parts.headers;
      while (header->seq.load() != 1) ++header;
      return header;
    };
    using Place = QueuePlace&;
    const auto root_byte = [](const Parts&, std::byte* root, Place) { root[30] ^= std::byte{1}; };
    EXPECT_EQ(code_after(root_byte), ErrorCode::corrupt);
    const auto directory = [](const Parts& parts, std::byte*, Place) {
      parts.directory[16] ^= std::byte{64};
    };
    EXPECT_EQ(code_after(directory), ErrorCode::corrupt);
    const auto length = [&](const Parts& parts, std::byte*, Place) { pushed(parts)->len = 101; };
    EXPECT_EQ(code_after(length), ErrorCode::corrupt);
    const auto producer = [&](const Parts& parts, std::byte*, Place) {
      pushed(parts)->producer = pm::max_threads;
    };
    EXPECT_EQ(code_after(producer), ErrorCode::corrupt);
    const auto twice = [&](const Parts& parts, std::byte*, Place) {
      parts.headers[0].seq.store(1);
      parts.headers[1].seq.store(1);
    };
    EXPECT_EQ(code_after(twice), ErrorCode::corrupt);
    const auto mark = [](const Parts& parts, std::byte*, Place) {
      parts.marks[3].seq.store(unfinished | 1);
    };
    EXPECT_EQ(code_after(mark), ErrorCode::corrupt);
    const auto slots = [](const Parts&, std::byte*, Place place) { place.options.set("slots", 5); };
    EXPECT_EQ(code_after(slots), ErrorCode::foreign);
    const auto bytes = [](const Parts&, std::byte*, Place place) {
      place.options.set("payload_bytes", 101);
    };
    EXPECT_EQ(code_after(bytes), ErrorCode::foreign);
    const auto root_name = [](const Parts&, std::byte*, Place place) { place.root_name = "none"; };
    EXPECT_EQ(code_after(root_name), ErrorCode::not_found);
    const auto nothing = [](const Parts&, std::byte*, Place) {};
    EXPECT_EQ(code_after(nothing), ErrorCode::failed);
  }
  TestQueue queue("ring:tx");
  Pages copy = lockfree_test::new_pages(queue.span().size());
  std::memcpy(copy.get(), queue.span().data(), queue.span().size());
  auto pool = Pool::open_in({copy.get(), queue.span().size()});
  ASSERT_TRUE(pool);
  QueuePlace place = queue.place();
  place.pool = pool->get();
  const auto other = recover_queue(**QueueRegistry::find("ring:txfree"), place);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::foreign);
}

TEST(Ring, LeavesNothingBehindInAPoolThatIsTooSmall) {
  for (const char* const mode : persistent_modes) {
    Pages memory = lockfree_test::new_pages(1 << 20);
    auto pool = Pool::create_in({memory.get(), 1 << 20});
    ASSERT_TRUE(pool);
    QueuePlace place;
    place.pool = pool->get();
    const auto refused = create_queue(**QueueRegistry::find(mode), place);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::out_of_space);
    EXPECT_EQ((*pool)->heap().usage().live_blocks, 0U);
    place.options = options_of(16, 64);
    auto made = create_queue(**QueueRegistry::find(mode), place);
    ASSERT_TRUE(made);
    EXPECT_TRUE(holds((*made)->check_invariants()));
    EXPECT_EQ(create_queue(**QueueRegistry::find(mode), place).error().code, ErrorCode::exists);
    EXPECT_TRUE(holds((*made)->check_invariants()));
  }
}

TEST(Ring, KeepsPayloadsInTheCachesWhereItIsTold) {
  pm::configure(pm::Durability::eadr);
  for (const char* const mode : persistent_modes) {
    IndexOptions options = options_of(64, 700);
    options.set("payload", 2);
    TestQueue queue(mode, options);
    ASSERT_NO_FATAL_FAILURE(agree_with_a_model(queue, 600));
  }
  pm::configure(pm::Durability::adr);
}

TEST(Ring, WritesPayloadsBackWhereItIsTold) {
  for (const pm::Durability durability :
       {pm::Durability::adr, pm::Durability::eadr, pm::Durability::none}) {
    pm::configure(durability);
    for (const char* const mode : persistent_modes) {
      IndexOptions options = options_of(64, 700);
      options.set("payload", 1);
      TestQueue queue(mode, options);
      ASSERT_NO_FATAL_FAILURE(agree_with_a_model(queue, 600));
    }
  }
  pm::configure(pm::Durability::adr);
}

// A payload in the caches alone is lost with them. The path is no part of the layout.
TEST(Ring, KeepsNoPayloadInCachesThatAPowerCutEmpties) {
  for (const char* const mode : persistent_modes) {
    TestQueue queue(mode);
    ASSERT_EQ(queue->push(std::string(300, 'x')), Outcome::ok);
    queue.place().options.set("payload", 2);
    queue.place().root_name = "another";
    EXPECT_EQ(create_queue(queue.info(), queue.place()).error().code, ErrorCode::unsupported);
    queue.place().root_name = "queue";
    const Result<void> opened = queue.crash();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::unsupported);
    EXPECT_NE(opened.error().what.find("payload=2 keeps no payload under adr"), std::string::npos)
        << opened.error().line();
    pm::configure(pm::Durability::eadr);
    EXPECT_TRUE(queue.crash());
    pm::configure(pm::Durability::adr);
    EXPECT_EQ(queue->size(), 1U);
  }
}

TEST(Ring, RunsInTransactionsOfLibpmemobj) {
  TestFolder folder;
  auto pool = must(Pool::create(small_pool(folder.file(), HeapKind::pmdk)));
  const QueueInfo& info = **QueueRegistry::find("ring:tx");
  QueuePlace place;
  place.pool = pool.get();
  place.options = options_of(100, 700);
  place.options.set("pmemobj", 1);
  std::deque<std::string> model;
  {
    auto queue = create_queue(info, place);
    ASSERT_TRUE(queue) << queue.error().line();
    ASSERT_NO_FATAL_FAILURE(move_between_threads(**queue, 2, 2, 400, true));
    for (unsigned i = 0; i < 50; ++i) {
      model.push_back(payload_of(i, i * 14));
      ASSERT_EQ((*queue)->push(model.back()), Outcome::ok);
    }
  }
  pool.reset();
  pool = must(Pool::open(small_pool(folder.file(), HeapKind::pmdk)));
  place.pool = pool.get();
  place.options.set("pmemobj", 0);
  EXPECT_EQ(recover_queue(info, place).error().code, ErrorCode::foreign);
  place.options.set("pmemobj", 1);
  auto queue = recover_queue(info, place);
  ASSERT_TRUE(queue) << queue.error().line();
  EXPECT_EQ((*queue)->last_push(1), 400U);
  ASSERT_NO_FATAL_FAILURE(expect_content(**queue, model));
  Pages memory = lockfree_test::new_pages(1 << 20);
  auto slab = Pool::create_in({memory.get(), 1 << 20});
  place.pool = slab->get();
  EXPECT_EQ(create_queue(info, place).error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace perdure::lockfree

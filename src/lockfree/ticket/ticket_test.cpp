#include "lockfree/ticket/ticket.h"

#include <gtest/gtest.h>

#include "index/common/index_root.h"
#include "lockfree/slots/test_queue.h"

namespace perdure::lockfree {
namespace {

using lockfree_test::expect_content;
using lockfree_test::holds;
using lockfree_test::options_of;
using lockfree_test::TestQueue;

constexpr const char* name = "ring:ticket";

TEST(TicketRing, AgreesWithAModelThroughPowerCuts) {
  for (const pm::Durability durability : {pm::Durability::eadr, pm::Durability::adr}) {
    pm::configure(durability);
    for (const auto& [slots, bytes] : {std::pair{1U, 40U}, {5U, 41U}, {64U, 700U}}) {
      SCOPED_TRACE(slots);
      TestQueue queue(name, options_of(slots, bytes));
      ASSERT_NO_FATAL_FAILURE(lockfree_test::agree_with_a_model(queue, 1500));
    }
  }
}

TEST(TicketRing, LosesAndDoublesNothingBetweenThreads) {
  for (const unsigned slots : {1U, 3U, 100U}) {
    TestQueue queue(name, options_of(slots, 300));
    ASSERT_NO_FATAL_FAILURE(lockfree_test::move_between_threads(*queue, 2, 2, 1000, false));
  }
}

/// The headers of the image.
SlotHeader* headers_of(const TestQueue& queue) {
  std::byte* const memory = queue.span().data();
  IndexRoot root{};
  std::memcpy(&root, memory + queue.pool().roots().front().offset, sizeof root);
  std::uint64_t at = 0;
  std::memcpy(&at, memory + root.head + sizeof(Directory) + 8, sizeof at);
  return reinterpret_cast<SlotHeader*>(memory + at);
}

/// Payloads a, b, c, ... until the queue is full; whether as many were pushed as it can hold.
void expect_room_for_all(TestQueue& queue, std::deque<std::string>& model, char& next) {
  while (model.size() < queue->capacity()) {
    ASSERT_EQ(queue->push(std::string(1, next)), Outcome::ok) << model.size();
    model.emplace_back(1, next++);
  }
  ASSERT_EQ(queue->push("too many"), Outcome::out_of_space);
  ASSERT_TRUE(holds(queue->check_invariants()));
}

// K4: a push that was cut off takes no room, wherever in the order it was.
TEST(TicketRing, HasRoomForAllItsSlotsAfterAPowerCut) {
  constexpr std::uint64_t slots = 4;
  for (std::uint64_t cut = 1; cut < 1U << slots; ++cut) {
    SCOPED_TRACE(cut);
    TestQueue queue(name, options_of(slots, 40));
    std::deque<std::string> model;
    std::string payload;
    char next = 'a';
    for (unsigned round = 0; round < 3; ++round) {  // each from another place, over older gaps
      ASSERT_NO_FATAL_FAILURE(expect_room_for_all(queue, model, next));
      ASSERT_EQ(queue->pop(payload), Outcome::ok);
      ASSERT_EQ(payload, model.front());
      model.pop_front();
      ASSERT_NO_FATAL_FAILURE(expect_room_for_all(queue, model, next));
      std::deque<std::string> left;
      for (std::uint64_t slot = 0; slot < slots; ++slot) {
        SlotHeader& header = headers_of(queue)[slot];
        if ((cut >> slot & 1) != 0) header.seq.store(header.seq.load() | unfinished);
      }
      for (const std::string& each : model) {
        bool is_there = false;
        for (std::uint64_t slot = 0; slot < slots; ++slot) {
          const SlotHeader& header = headers_of(queue)[slot];
          is_there = is_there || ((header.seq.load() & unfinished) == 0 &&
                                  static_cast<char>(header.short_payload[0]) == each[0]);
        }
        if (is_there) left.push_back(each);
      }
      model = left;
      ASSERT_TRUE(holds(queue.crash()));
      ASSERT_EQ(queue->size(), model.size());
      ASSERT_TRUE(holds(queue->check_invariants()));
    }
    ASSERT_NO_FATAL_FAILURE(expect_room_for_all(queue, model, next));
    ASSERT_TRUE(holds(queue.crash()));
    ASSERT_NO_FATAL_FAILURE(expect_content(*queue, model));
  }
}

// K4
TEST(TicketRing, RecoveryWritesNothing) {
  TestQueue queue(name, options_of(4, 40));
  for (const char* const text : {"a", "b", "c"}) ASSERT_EQ(queue->push(text), Outcome::ok);
  SlotHeader& cut = headers_of(queue)[1];
  cut.seq.store(cut.seq.load() | unfinished);
  std::array<std::byte, 4 * sizeof(SlotHeader)> before{};
  std::memcpy(before.data(), headers_of(queue), before.size());
  ASSERT_TRUE(holds(queue.crash()));
  EXPECT_EQ(std::memcmp(before.data(), headers_of(queue), before.size()), 0);
  ASSERT_NO_FATAL_FAILURE(expect_content(*queue, {"a", "c"}));
  ASSERT_EQ(queue->push("e"), Outcome::ok);
  ASSERT_TRUE(holds(queue.crash()));
  ASSERT_NO_FATAL_FAILURE(expect_content(*queue, {"e"}));
}

}  // namespace
}  // namespace perdure::lockfree

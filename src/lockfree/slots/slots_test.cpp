// Rings of slot numbers, and slots in a pool.
#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "lockfree/slots/index_ring.h"
#include "lockfree/slots/slot_store.h"
#include "lockfree/slots/test_queue.h"

namespace perdure::lockfree {
namespace {

TEST(IndexRing, IsFirstInFirstOut) {
  IndexRing ring(300);
  std::deque<std::uint32_t> model;
  Rng rng(3);
  std::uint64_t last_ticket = 0;
  for (std::uint32_t i = 0; i < 20000; ++i) {
    if (rng.below(10) < (i / 1000 % 2 == 0 ? 7U : 3U) && model.size() < 300) {
      const std::uint64_t ticket = ring.push(i % 300);
      ASSERT_GE(ticket, ring.first_ticket());
      model.push_back(i % 300);
    } else {
      const IndexRing::Taken taken = ring.pop();
      ASSERT_EQ(taken.number, model.empty() ? IndexRing::none : model.front());
      if (model.empty()) continue;
      model.pop_front();
      ASSERT_GT(taken.ticket, last_ticket);
      last_ticket = taken.ticket;
      ASSERT_GT(ring.head(), taken.ticket);  // Q3
    }
    if (i % 500 == 0) {
      ASSERT_EQ(ring.size(), model.size());
    }
  }
}

// Q4, and the deviation: asking an empty ring moves its head once.
TEST(IndexRing, StaysWhereItIsWhileItIsEmpty) {
  IndexRing ring(4);
  ring.push(1);
  EXPECT_EQ(ring.pop().number, 1U);
  EXPECT_EQ(ring.pop().number, IndexRing::none);
  const std::uint64_t head = ring.head();
  for (unsigned i = 0; i < 5000; ++i) EXPECT_EQ(ring.pop().number, IndexRing::none);
  EXPECT_EQ(ring.head(), head);
  ring.push(2);
  EXPECT_EQ(ring.pop().number, 2U);
}

// Q1, Q2: two numbers go round among more threads than there are numbers.
TEST(IndexRing, GivesEachNumberToOneThread) {
  IndexRing ring(2);
  ring.push(0);
  ring.push(1);
  std::array<std::atomic<bool>, 2> taken{};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (unsigned i = 0; i < 20000; ++i) {
        const std::uint32_t number = ring.pop().number;
        if (number == IndexRing::none) continue;
        EXPECT_FALSE(taken[number].exchange(true));
        taken[number].store(false);
        ring.push(number);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ring.size(), 2U);
}

TEST(SlotShape, FillsBlocksOfTheHeap) {
  for (const std::uint64_t bytes : {0U, 40U, 41U, 256U, 257U, 4096U, 60000U, 65536U})
    for (const std::uint64_t slots : {1U, 2U, 5U, 17000U, 65536U}) {
      const SlotShape shape{slots, bytes, true};
      std::uint64_t headers = 0;
      std::uint64_t payloads = 0;
      for (std::uint64_t i = 0; i < shape.chunks(); ++i) {
        ASSERT_LE(shape.chunk_bytes(i), Heap::max_block_bytes);
        ASSERT_GT(shape.chunk_bytes(i), 0U);
      }
      for (std::uint64_t i = 0; i < shape.header_chunks(); ++i) headers += shape.header_bytes(i);
      for (std::uint64_t i = 0; i < shape.payload_chunks(); ++i) {
        payloads += shape.payload_chunk_bytes(i);
        ASSERT_EQ(Heap::block_alignment(shape.payload_chunk_bytes(i)), pm::media_block_bytes);
      }
      EXPECT_EQ(headers, slots * sizeof(SlotHeader));
      EXPECT_EQ(payloads, slots * shape.stride());
      EXPECT_LE(shape.directory_bytes(), Heap::max_block_bytes);
    }
}

TEST(SlotStore, HasAPlaceOfItsOwnForEachPayload) {
  const SlotStore store = SlotStore::in_dram({700, 3000, false}, true);
  std::vector<std::byte*> places;
  for (std::uint64_t slot = 0; slot < 700; ++slot) {
    places.push_back(store.payload(slot, 3000));
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(places.back()) % pm::media_block_bytes, 0U);
    EXPECT_EQ(store.payload(slot, inline_bytes), store.header(slot).short_payload.data());
  }
  std::ranges::sort(places);
  for (std::size_t i = 1; i < places.size(); ++i) ASSERT_GE(places[i] - places[i - 1], 3000);
}

TEST(SlotStore, DescribesItsMedia) {
  const std::vector<MediaStruct> media = media_of_slots({100, 500, true});
  ASSERT_EQ(media.size(), 6U);
  for (const MediaStruct& described : media)
    for (const MediaField& field : described.fields) {
      const std::uint64_t stride = field.stride == 0 ? field.bytes : field.stride;
      EXPECT_LE(field.offset + (field.count - 1) * stride + field.bytes, described.bytes)
          << described.name << "." << field.name;
    }
}

}  // namespace
}  // namespace perdure::lockfree

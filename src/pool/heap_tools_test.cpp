// What the slab heap tells to tools: which blocks are live, and how many more it could hand out.
#include <gtest/gtest.h>

#include <vector>

#include "pm/pm.h"
#include "pool/pool.h"

namespace perdure {
namespace {

class HeapToolsTest : public testing::TestWithParam<unsigned> {
 protected:
  std::vector<std::byte> memory_ = std::vector<std::byte>(std::size_t{4} << 20);
  std::unique_ptr<Pool> pool_ = [this] {
    pm::configure(pm::Durability::adr);
    // A pool begins at a page.
    auto* const begin =
        memory_.data() + (4096 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 4096);
    auto made = Pool::create_in({begin, std::size_t{2} << 20}, GetParam());
    EXPECT_TRUE(made.ok());
    return std::move(made).value();
  }();
  Heap& heap_ = pool_->heap();
};

TEST_P(HeapToolsTest, ABlockIsLiveFromItsReservationToItsEnd) {
  Reservation kept = heap_.reserve(100);
  Reservation cancelled = heap_.reserve(100);
  Reservation freed = heap_.reserve(100);
  heap_.publish({&freed, 1});
  for (const Reservation& block : {kept, cancelled, freed})
    EXPECT_TRUE(heap_.is_live(block.offset));
  EXPECT_FALSE(heap_.is_live(kept.offset + 16)) << "no block begins there";
  const std::uint64_t was = cancelled.offset;
  heap_.cancel(cancelled);
  heap_.free(freed.offset, 100);
  EXPECT_TRUE(heap_.is_live(kept.offset));
  EXPECT_FALSE(heap_.is_live(was));
  EXPECT_FALSE(heap_.is_live(freed.offset));
}

/// Exactly as many, with blocks of other sizes in use and blocks in caches.
void expect_room(Heap& heap, std::size_t bytes) {
  std::vector<Reservation> others;
  for (const std::size_t other : {16U, 200U, 5000U, 70000U}) others.push_back(heap.reserve(other));
  const std::uint64_t room = heap.room_for(bytes);
  std::vector<Reservation> held;
  for (Reservation block = heap.reserve(bytes); block; block = heap.reserve(bytes))
    held.push_back(block);
  EXPECT_EQ(held.size(), room);
  EXPECT_EQ(heap.room_for(bytes), 0U);
  for (std::size_t i = 0; i < 10; ++i) heap.cancel(held[i]);
  EXPECT_EQ(heap.room_for(bytes), 10U);
}
TEST_P(HeapToolsTest, ThereIsRoomForAsManySmallBlocksAsCanBeHad) { expect_room(heap_, 64); }
TEST_P(HeapToolsTest, ThereIsRoomForAsManyNodesAsCanBeHad) { expect_room(heap_, 1000); }
TEST_P(HeapToolsTest, ThereIsRoomForAsManyLargeBlocksAsCanBeHad) { expect_room(heap_, 20'000); }

INSTANTIATE_TEST_SUITE_P(Parts, HeapToolsTest, testing::Values(1U, 2U));

}  // namespace
}  // namespace perdure

// The leaf by itself: where insertions go, what they leave untouched, and in which order its words
// change.
#include "index/lbtree/leaf.h"

#include <gtest/gtest.h>

#include <memory>

namespace perdure::lbtree {
namespace {

constexpr std::uint32_t all_slots = (1U << Leaf::entries) - 1;

unsigned line_of(unsigned slot) {
  return static_cast<unsigned>((offsetof(Leaf, record) + slot * sizeof(LeafRecord)) / 64);
}

TEST(LbTreeLeaf, FingerprintsShareTheHeaderWithTheBitmap) {
  Header header;
  for (unsigned slot = 0; slot < Leaf::entries; ++slot)
    header.add(slot, static_cast<std::uint8_t>(slot + 0xe0));
  EXPECT_EQ(header.live(), all_slots);
  EXPECT_EQ(header.free(), 0U);
  for (unsigned slot = 0; slot < Leaf::entries; ++slot)
    EXPECT_EQ(header.fingerprint(slot), slot + 0xe0);
  EXPECT_EQ(header.alternate(), 0U);
  header.flip();
  EXPECT_EQ(header.alternate(), 1U);
  EXPECT_EQ(header.live(), all_slots) << "the alternate bit is no slot";
  header.drop(0b101);
  EXPECT_EQ(header.live(), all_slots & ~0b101U);
  EXPECT_EQ(header.fingerprint(2), 0xe2) << "a dropped slot keeps its fingerprint until reused";
}

// L1, L2: for every set of free slots the new record and the moved ones go to distinct free slots
// of one line, moved ones come from line 0, and line 0 is used whenever it has room.
TEST(LbTreeLeaf, PlacementUsesFreeSlotsOfOneLine) {
  for (std::uint32_t free = 1; free <= all_slots; ++free) {
    const Placement placement = Leaf::place(free);
    ASSERT_NE(free >> placement.slot & 1, 0U) << free;
    if ((free & Leaf::line_0) != 0) {
      ASSERT_EQ(line_of(placement.slot), 0U) << free;
      ASSERT_EQ(placement.moves, 0U) << free;
      continue;
    }
    std::uint32_t taken = 1U << placement.slot;
    for (unsigned i = 0; i < placement.moves; ++i) {
      ASSERT_EQ(line_of(placement.from[i]), 0U) << free;
      ASSERT_NE(free >> placement.to[i] & 1, 0U) << free;
      ASSERT_EQ(line_of(placement.to[i]), line_of(placement.slot)) << free;
      ASSERT_EQ(taken >> placement.to[i] & 1, 0U) << free;
      taken |= 1U << placement.to[i];
    }
    // As many move as fit into the roomiest line.
    unsigned most = 0;
    for (unsigned line = 1; line < 4; ++line) {
      unsigned room = 0;
      for (unsigned slot = 0; slot < Leaf::entries; ++slot)
        room += line_of(slot) == line && (free >> slot & 1) != 0;
      most = std::max(most, room);
    }
    ASSERT_EQ(placement.moves, std::min(most - 1, Leaf::line_0_slots)) << free;
  }
}

// L2: filling changes nothing that the present header makes live, and makes nothing live.
TEST(LbTreeLeaf, FillLeavesLiveRecordsAlone) {
  for (std::uint32_t free = 1; free <= all_slots; ++free) {
    auto leaf = std::make_unique<Leaf>();
    leaf->format(0);
    Header now;
    for (unsigned slot = 0; slot < Leaf::entries; ++slot) {
      if ((free >> slot & 1) != 0) continue;
      leaf->record[slot].store({slot, 100 + slot});
      now.add(slot, static_cast<std::uint8_t>(slot + 1));
    }
    const Placement placement = Leaf::place(free);
    const Header next = leaf->fill(now, placement, {77, 177}, 0xaa);
    ASSERT_EQ(leaf->header[0].load(), 0U);
    ASSERT_EQ(leaf->header[1].load(), 0U);
    for (unsigned slot = 0; slot < Leaf::entries; ++slot) {
      if ((free >> slot & 1) != 0) continue;
      ASSERT_EQ(leaf->record[slot].load().value, 100 + slot) << free;
      ASSERT_EQ(next.fingerprint(slot), slot + 1)
          << free << ": L2, a live slot's fingerprint changed";
    }
    // What the next header makes live is the old content and the new record, each once.
    std::uint64_t keys = 0;
    for (unsigned slot = 0; slot < Leaf::entries; ++slot) {
      if ((next.live() >> slot & 1) == 0) continue;
      const RecordWords words = leaf->record[slot].load();
      const std::uint64_t key = words.key == 77 ? 14 : words.key;
      ASSERT_EQ(keys >> key & 1, 0U) << free << ": twice";
      keys |= std::uint64_t{1} << key;
      ASSERT_EQ(next.fingerprint(slot), key == 14 ? 0xaa : key + 1) << free;
    }
    ASSERT_EQ(keys, (all_slots & ~free) | 1U << 14) << free;
  }
}

TEST(LbTreeLeaf, CandidatesAreLiveSlotsOnly) {
  Leaf leaf;
  leaf.format(0);
  Header header;
  for (const unsigned slot : {0U, 5U, 6U, 13U}) header.add(slot, 0x42);
  header.add(7, 0x43);
  leaf.header[1].store(header.word_1);
  leaf.header[0].store(header.word_0);
  EXPECT_EQ(leaf.candidates(0x42), 1U << 0 | 1U << 5 | 1U << 6 | 1U << 13);
  EXPECT_EQ(leaf.candidates(0x43), 1U << 7);
  EXPECT_EQ(leaf.candidates(0), 0U) << "free slots hold fingerprint 0 and are not candidates";
  header.drop(1U << 6);
  leaf.header[0].store(header.word_0);
  EXPECT_EQ(leaf.candidates(0x42), 1U << 0 | 1U << 5 | 1U << 13);
}

// L4: the alternate bit alone decides which sibling counts.
TEST(LbTreeLeaf, AlternateBitSelectsTheSuccessor) {
  Leaf leaf;
  leaf.format(512);
  leaf.sibling[1].store(1024);
  Header header = leaf.read_header();
  EXPECT_EQ(leaf.next(header), 512U);
  header.flip();
  EXPECT_EQ(leaf.next(header), 1024U);
}

}  // namespace
}  // namespace perdure::lbtree

// One DIMM against cases worked out by hand.
#include "platform/model/pm_dimm.h"

#include <gtest/gtest.h>

namespace perdure::platform {
namespace {

class PmDimmTest : public ::testing::Test {
 protected:
  PmDimmTest() {
    parameters.writes_per_table_write = 1'000'000;  // no writes of the DIMM's own
    parameters.write_buffer_xplines = 4;
  }
  PmParameters parameters;
  Ablation ablation;
  ChannelCounters counters;
};

TEST_F(PmDimmTest, MergesFourPiecesIntoOneMediaWrite) {
  PmDimm dimm(parameters, ablation, 1);
  for (LineAddress line = 0; line < 4 * 100; ++line) dimm.write(line, line * us, counters);
  // 100 lines in; the media were idle before all but the last was whole.
  EXPECT_EQ(counters.controller_write_bytes, 400 * 64);
  EXPECT_EQ(counters.media_write_bytes, 99 * 256);
  EXPECT_EQ(counters.buffer_write_hits, 300);
  EXPECT_EQ(counters.read_modify_writes, 0);
  EXPECT_TRUE(dimm.conserves());  // D1
}

TEST_F(PmDimmTest, WritesAWholeXpLineForEachLonePiece) {
  PmDimm dimm(parameters, ablation, 1);
  for (LineAddress line = 0; line < 400; line += 4) dimm.write(line, line * us, counters);
  EXPECT_EQ(counters.controller_write_bytes, 100 * 64);
  EXPECT_EQ(counters.media_write_bytes, 96 * 256);  // EWR 0.25 but for the 4 in the buffer
  EXPECT_EQ(counters.read_modify_writes, 96);
  EXPECT_EQ(dimm.dirty_bytes(), 4 * 64);
  EXPECT_TRUE(dimm.conserves());
}

TEST_F(PmDimmTest, DoesNotAbsorbRewritesOfAWholeLine) {
  PmDimm dimm(parameters, ablation, 1);
  for (unsigned round = 0; round < 10; ++round)
    for (LineAddress line = 0; line < 4; ++line) dimm.write(line, round * us, counters);
  EXPECT_EQ(counters.media_write_bytes, 9 * 256);
  EXPECT_TRUE(dimm.conserves());
}

// The media have the second of two lines after two writes.
TEST_F(PmDimmTest, ReadsNoLineWhoseLastVersionIsStillBeingWritten) {
  const Time write = from_ns(parameters.media_write_ns);
  for (const bool written : {false, true}) {
    PmDimm dimm(parameters, ablation, 1);
    counters = {};
    for (LineAddress line = 0; line < 8; ++line) dimm.write(line, 0, counters);
    EXPECT_EQ(counters.media_read_bytes, 2 * 256U);
    dimm.write(4, written ? 2 * write : 2 * write - ns, counters);
    EXPECT_EQ(counters.media_read_bytes, (written ? 3 : 2) * 256U);
    EXPECT_TRUE(dimm.conserves());
  }
}

TEST_F(PmDimmTest, WritesWholeLinesOutWhileTheMediaAreIdle) {
  PmDimm dimm(parameters, ablation, 1);
  const Time write = from_ns(parameters.media_write_ns);
  for (LineAddress line = 0; line < 4 * 4; ++line) dimm.write(line, 0, counters);
  // One after the other; a lone piece stays.
  EXPECT_EQ(dimm.write(100, 3 * write, counters), 3 * write);
  EXPECT_EQ(counters.media_write_bytes, 4 * 256);
  EXPECT_EQ(dimm.dirty_bytes(), 64U);
  dimm.write(200, ms, counters);
  EXPECT_EQ(counters.media_write_bytes, 4 * 256);
  EXPECT_EQ(dimm.dirty_bytes(), 2 * 64U);
  EXPECT_TRUE(dimm.conserves());
}

TEST_F(PmDimmTest, DataReplaceTheDirectoryBitsBesideThem) {
  PmDimm dimm(parameters, ablation, 1);
  for (LineAddress line = 0; line < 4; ++line) dimm.write_directory(line, 0, counters);
  dimm.write(100, us, counters);
  EXPECT_EQ(counters.media_write_bytes, 0U);  // bits alone do not make a line whole
  for (LineAddress line = 0; line < 4; ++line) dimm.write(line, 2 * us, counters);
  dimm.write(200, 3 * us, counters);
  EXPECT_EQ(counters.controller_write_bytes, 10 * 64U);
  EXPECT_EQ(counters.media_write_bytes, 256U);  // one write for both
  EXPECT_TRUE(dimm.conserves());
}

TEST_F(PmDimmTest, ReadsWaitForTheLinesOwnDirectoryBitsThatChangedBefore) {
  PmDimm dimm(parameters, ablation, 1);
  dimm.write_directory(1, us, counters);
  EXPECT_EQ(dimm.read(1, 500 * ns, counters).waited, 0U);  // it came before, though called later
  EXPECT_EQ(dimm.read(2, 2 * us, counters).waited, 0U);    // another line of the XPLine
  EXPECT_EQ(counters.media_write_bytes, 0U);
  const PmDimm::Read read = dimm.read(1, 2 * us, counters);
  EXPECT_FALSE(read.hit);
  EXPECT_EQ(read.waited, from_ns(parameters.media_write_ns));
  EXPECT_EQ(counters.media_write_bytes, 256U);
  EXPECT_TRUE(dimm.conserves());
}

TEST_F(PmDimmTest, FetchesAnXpLineOnceForEachTimeItIsOpened) {
  // I7: the copy in the read buffer is out of date after the first round.
  PmDimm dimm(parameters, ablation, 1);
  dimm.read(0, 0, counters);
  for (unsigned round = 1; round <= 10; ++round)
    for (LineAddress line = 0; line < 4; ++line) dimm.write(line, round * us, counters);
  EXPECT_EQ(counters.media_read_bytes, 10 * 256U);  // one of them by the read
}

TEST_F(PmDimmTest, ServesReadsFromAnXpLineThatItPutsTogether) {
  for (const bool fetches : {true, false}) {
    parameters.fetches_on_open = fetches;
    PmDimm dimm(parameters, ablation, 1);
    dimm.write(0, 0, counters);
    EXPECT_TRUE(dimm.read(0, us, counters).hit);
    EXPECT_EQ(dimm.read(1, us, counters).hit, fetches);
  }
  EXPECT_EQ(counters.media_read_bytes, 2 * 256U);
}

TEST_F(PmDimmTest, EvictsTheOldestLineOnlyWhenAblated) {
  ablation.lru_write_buffer = true;
  PmDimm dimm(parameters, ablation, 1);
  for (LineAddress xpline = 0; xpline < 5; ++xpline) dimm.write(xpline * 4, 0, counters);
  const std::uint64_t media = counters.media_write_bytes;
  EXPECT_EQ(media, 256);  // line 0 went; 1 to 4 are there
  for (LineAddress xpline = 1; xpline < 5; ++xpline) dimm.write(xpline * 4 + 1, 0, counters);
  EXPECT_EQ(counters.media_write_bytes, media);
}

TEST_F(PmDimmTest, TakesAWriteOnlyWhenTheMediaCanStartOnItsVictim) {
  PmDimm dimm(parameters, ablation, 1);
  const Time write = from_ns(parameters.media_write_ns);
  for (LineAddress xpline = 0; xpline < 4; ++xpline)
    EXPECT_EQ(dimm.write(xpline * 4, 0, counters), 0U);
  EXPECT_EQ(dimm.write(4 * 4, 0, counters), 0U);     // the media is idle
  EXPECT_EQ(dimm.write(5 * 4, 0, counters), write);  // and then busy
  EXPECT_EQ(dimm.write(6 * 4, 0, counters), 2 * write);
}

TEST_F(PmDimmTest, ServesAnXpLineFromTheBufferAfterOneMediaRead) {
  PmDimm dimm(parameters, ablation, 1);
  EXPECT_FALSE(dimm.read(40, 0, counters).hit);
  for (LineAddress line = 41; line < 44; ++line) {
    const PmDimm::Read read = dimm.read(line, 10 * us, counters);
    EXPECT_TRUE(read.hit);
    EXPECT_EQ(read.waited, 0U);
  }
  EXPECT_EQ(counters.controller_read_bytes, 256U);
  EXPECT_EQ(counters.media_read_bytes, 256U);
}

TEST_F(PmDimmTest, MakesReadsOfOneXpLineWaitForItsMediaRead) {
  PmDimm dimm(parameters, ablation, 1);
  dimm.read(40, 0, counters);
  const PmDimm::Read second = dimm.read(41, 0, counters);
  EXPECT_EQ(second.waited, from_ns(parameters.piece_read_ns + parameters.address_miss_ns));
  ablation.no_early_lines = true;
  PmDimm whole(parameters, ablation, 1);
  whole.read(40, 0, counters);
  EXPECT_EQ(whole.read(41, 0, counters).waited,
            from_ns(parameters.read_miss_latency_ns - parameters.read_hit_latency_ns +
                    parameters.address_miss_ns));
}

TEST_F(PmDimmTest, AReadWaitsForTheWriteInItsPartition) {
  parameters.partitions = 1;
  for (const bool ablated : {false, true}) {
    ablation.no_write_hindrance = ablated;
    PmDimm dimm(parameters, ablation, 1);
    for (LineAddress line = 0; line < 4; ++line) dimm.write(line, 0, counters);
    dimm.write(400, 10 * ns, counters);  // by then the media have begun with the whole line
    const PmDimm::Read read = dimm.read(800, 20 * ns, counters);
    EXPECT_EQ(read.waited, ablated ? 0U : from_ns(parameters.media_write_ns) - 20 * ns);
  }
}

TEST_F(PmDimmTest, UnderWritesWithoutEndAReadWaitsHalfItsLatencyOnAverage) {
  PmDimm dimm(parameters, ablation, 1);
  for (LineAddress line = 0; line < 4 * 4000; line += 4) dimm.write(line, 0, counters);
  double waited = 0;
  constexpr unsigned reads = 1000;
  for (unsigned i = 0; i < reads; ++i)
    waited +=
        static_cast<double>(dimm.read((1U << 20) + i * 64, us + i * 300 * ns, counters).waited);
  const double latency = parameters.read_miss_latency_ns + parameters.address_miss_ns;
  EXPECT_NEAR(waited / reads / 1000 / latency, 0.55, 0.15);
}

TEST_F(PmDimmTest, NeighboursLieInDifferentSetsAndTheSameLinesOfPagesInOne) {
  parameters.write_buffer_xplines = 16;
  parameters.write_buffer_ways = 4;
  const auto evicted_by = [&](LineAddress apart) {
    counters = {};
    PmDimm dimm(parameters, ablation, 1);
    for (unsigned i = 0; i < 16; ++i) dimm.write(i * apart, 0, counters);
    EXPECT_TRUE(dimm.conserves());
    return counters.media_write_bytes / 256;
  };
  EXPECT_EQ(evicted_by(4), 0U);         // 16 XPLines side by side
  EXPECT_EQ(evicted_by(8), 0U);         // every other one
  EXPECT_EQ(evicted_by(16), 0U);        // a step of 1 KiB
  EXPECT_EQ(evicted_by(64), 16U - 4U);  // a step of 4 KiB: one set
  ablation.no_buffer_sets = true;
  EXPECT_EQ(evicted_by(64), 0U);
}

TEST_F(PmDimmTest, SpacesMediaReads) {
  PmDimm dimm(parameters, ablation, 1);
  EXPECT_EQ(dimm.read(0, 0, counters).waited, 0U);
  EXPECT_EQ(dimm.read(400, 0, counters).waited, from_ns(parameters.media_read_ns));
  EXPECT_EQ(dimm.read(800, 0, counters).waited, 2 * from_ns(parameters.media_read_ns));
}

TEST_F(PmDimmTest, MissesTheAddressCacheBeyondItsReach) {
  parameters.address_cache_bytes = 64 * 4096;
  PmDimm dimm(parameters, ablation, 1);
  for (LineAddress region = 0; region < 64; ++region)
    EXPECT_FALSE(dimm.read(region * 64, region * us, counters).address_hit);
  unsigned hits = 0;
  for (LineAddress region = 0; region < 64; ++region)
    hits += dimm.read(region * 64 + 32, ms + region * us, counters).address_hit ? 1 : 0;
  EXPECT_GT(hits, 32U);
  for (LineAddress region = 1000; region < 3000; ++region)
    EXPECT_FALSE(dimm.read(region * 64, 2 * ms + region * us, counters).address_hit);
}

TEST_F(PmDimmTest, StallsAfterManyWritesOfOneLine) {
  parameters.wear_levelling_writes = 100;
  PmDimm dimm(parameters, ablation, 1);
  for (unsigned round = 0; round < 1000; ++round)
    for (LineAddress line = 0; line < 4; ++line) dimm.write(line, round * 100 * us, counters);
  EXPECT_EQ(counters.wear_levelling_stalls, 9U);
  ablation.no_wear_levelling = true;
  ChannelCounters none;
  PmDimm without(parameters, ablation, 1);
  for (unsigned round = 0; round < 1000; ++round)
    for (LineAddress line = 0; line < 4; ++line) without.write(line, round * 100 * us, none);
  EXPECT_EQ(none.wear_levelling_stalls, 0U);
}

}  // namespace
}  // namespace perdure::platform

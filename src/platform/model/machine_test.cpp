// The machine against cases worked out by hand, and its laws under random traffic.
#include "platform/model/machine.h"

#include <gtest/gtest.h>

#include "core/rng.h"
#include "platform/model/server.h"

namespace perdure::platform {
namespace {

constexpr PhysicalAddress pm = std::uint64_t{1} << 42;
constexpr PhysicalAddress dram = std::uint64_t{1} << 20;
constexpr PhysicalAddress remote_dram = std::uint64_t{1} << 41;

class MachineTest : public ::testing::Test {
 protected:
  MachineTest() {
    platform.cpu.streamer = false;
    platform.cpu.adjacent_line = false;
  }
  void build(std::vector<unsigned> cpus = {0}) {
    machine = std::make_unique<Machine>(platform, cpus, ablation);
    for (std::uint64_t page = 0; page < 4096; ++page) {
      machine->place_page((pm >> 12) + page, {MemoryKind::pm, 0});
      machine->place_page((dram >> 12) + page, {MemoryKind::dram, 0});
      machine->place_page((remote_dram >> 12) + page, {MemoryKind::dram, 1});
    }
  }
  void expect_laws() {
    const Result<void> laws = machine->check_conservation();  // M2, M3
    EXPECT_TRUE(laws.ok()) << laws.error().what;
  }
  Platform platform;
  Ablation ablation;
  std::unique_ptr<Machine> machine;
};

TEST_F(MachineTest, SerialisesDependentLoadsAndOverlapsOthers) {
  build();
  Time ready = 0;
  for (unsigned i = 0; i < 8; ++i) ready = machine->load(0, pm + i * 65536, 8, ready);
  const Time miss = from_ns(platform.pm.read_miss_latency_ns);
  EXPECT_GE(ready, 8 * miss);
  build();
  Time last = 0;
  for (unsigned i = 0; i < 8; ++i) last = std::max(last, machine->load(0, pm + i * 65536, 8, 0));
  EXPECT_LT(last, 3 * miss);
  ablation.no_dependence_window = true;
  build();
  for (unsigned i = 0; i < 8; ++i) last = machine->load(0, pm + i * 65536, 8, 0);
  EXPECT_GE(last, 8 * miss);
}

TEST_F(MachineTest, StopsAtTheLastLineFillBuffer) {
  platform.cpu.line_fill_buffers = 4;
  build();
  for (unsigned i = 0; i < 4; ++i) machine->load(0, dram + i * 65536, 8, 0);
  EXPECT_LT(machine->now(0), from_ns(platform.dram.read_latency_ns));
  machine->load(0, dram + 4 * 65536, 8, 0);
  EXPECT_GE(machine->now(0), from_ns(platform.dram.read_latency_ns));
  expect_laws();
}

// Else the first stores of a measured part would push out more dirty lines than later ones.
TEST_F(MachineTest, CachesWarmedHoldWhatThePrefetchersFetched) {
  for (const bool prefetches : {false, true}) {
    platform.cpu.adjacent_line = prefetches;
    build();
    machine->touch(0, dram, 8, true);
    machine->finish_touches();
    machine->load(0, dram + 64, 8, 0);
    EXPECT_EQ(machine->counters().l2_hits, prefetches ? 1U : 0U);
    EXPECT_EQ(machine->counters().llc_misses, prefetches ? 0U : 1U);
  }
}

TEST_F(MachineTest, StopsWhenTheReorderWindowIsFull) {
  platform.cpu.reorder_buffer_accesses = 10;
  build();
  const Time end = machine->load(0, pm, 8, 0);
  for (unsigned i = 0; i < 9; ++i) machine->load(0, pm, 8, 0);
  EXPECT_LT(machine->now(0), end);
  for (unsigned i = 0; i < 4; ++i) machine->load(0, pm, 8, 0);
  EXPECT_GE(machine->now(0), end);
}

TEST_F(MachineTest, ReachesTheSharedPartsOnlyForLinesItDoesNotOwn) {
  build({0, 1});
  EXPECT_TRUE(machine->reaches_shared(0, pm, 8, false));
  machine->load(0, pm, 8, 0);
  EXPECT_FALSE(machine->reaches_shared(0, pm, 8, true));  // nobody else has it
  machine->load(1, pm, 8, 0);
  EXPECT_FALSE(machine->reaches_shared(0, pm, 8, false));
  EXPECT_TRUE(machine->reaches_shared(0, pm, 8, true));
  machine->store(1, pm, 8);
  EXPECT_TRUE(machine->reaches_shared(0, pm, 8, false));       // invalidated
  EXPECT_TRUE(machine->reaches_shared(0, pm + 60, 8, false));  // crosses a line
}

// Under eADR a program has nothing to flush; one that flushes all the same pays for it.
TEST_F(MachineTest, FenceWaitsForWhatWasFlushedInEveryDomain) {
  for (const PersistenceDomain domain : {PersistenceDomain::adr, PersistenceDomain::eadr}) {
    platform.domain = domain;
    build();
    machine->store(0, pm, 8);
    machine->drain(0);
    const Time before = machine->now(0);
    machine->flush(0, pm, FlushKind::clwb);
    machine->store_fence(0);
    const Time cost = machine->now(0) - before;
    const Time accept = from_ns(platform.pm.write_accept_ns);
    EXPECT_GE(cost, accept);
    EXPECT_LT(cost, accept + 30 * ns);
    EXPECT_EQ(machine->counters().pm.controller_write_bytes, 64U);
    expect_laws();
  }
}

TEST_F(MachineTest, FlushedLinesLeaveOneAfterTheOtherUnlessAblated) {
  constexpr unsigned lines = 8;
  const Time gap = from_ns(platform.cpu.flush_gap_ns);
  for (const bool ablated : {false, true}) {
    ablation.no_flush_gap = ablated;
    build();
    for (unsigned i = 0; i < lines; ++i) machine->store(0, pm + i * 64, 8);
    machine->drain(0);
    const Time before = machine->now(0);
    for (unsigned i = 0; i < lines; ++i) machine->flush(0, pm + i * 64, FlushKind::clwb);
    machine->store_fence(0);
    const Time cost = machine->now(0) - before;
    if (ablated)
      EXPECT_LT(cost, (lines - 1) * gap);
    else
      EXPECT_GE(cost, (lines - 1) * gap + from_ns(platform.pm.write_accept_ns));
    expect_laws();
  }
}

// Lines are asked for a few stores ahead, and a run of stores that hit takes some of these places.
TEST_F(MachineTest, StoresThatHitLetFewerMissesOverlapUnlessAblated) {
  constexpr unsigned lines = 400;
  platform.cpu.stores_ahead = 9;
  platform.cpu.store_hit_places = 2;
  const auto per_miss = [&](unsigned misses, unsigned hits, bool same_line) {
    build();
    for (unsigned i = 0; i < 16; ++i) machine->store(0, dram + i * 64, 64);
    machine->drain(0);
    const Time before = machine->now(0);
    for (unsigned i = 0; i < lines; ++i) {
      const PhysicalAddress line = dram + (16 + i) * 64;
      machine->store(0, line, 64);
      if ((i + 1) % misses != 0) continue;
      for (unsigned hit = 0; hit < hits; ++hit)
        machine->store(0, same_line ? line : dram + hit * 64, 64);
    }
    machine->drain(0);
    expect_laws();
    return static_cast<double>(machine->now(0) - before) / lines;
  };
  const double alone = per_miss(1, 0, false);
  EXPECT_NEAR(per_miss(1, 3, true), alone, alone * 0.05) << "a store to the same line joins it";
  const double between = per_miss(1, 1, false);
  EXPECT_NEAR(between, alone * 3, alone * 0.4) << "3 of 9 places are misses";
  EXPECT_NEAR(per_miss(1, 4, false), between, between * 0.05) << "a run is as long as one";
  EXPECT_LT(per_miss(4, 1, false), alone * 1.7) << "6 of 9 places are misses";
  ablation.no_hit_places = true;
  EXPECT_NEAR(per_miss(1, 1, false), alone, alone * 0.05);
}

TEST_F(MachineTest, WhatIsStreamedAcrossHoldsItsFillBufferLonger) {
  constexpr unsigned lines = 1000;
  const auto stream_to = [&](PhysicalAddress memory) {
    build();
    for (unsigned i = 0; i < lines; ++i) machine->stream(0, memory + i * 64, 64);
    return machine->now(0);
  };
  const Time near = stream_to(dram);
  const Time far = stream_to(remote_dram);
  const double hold = platform.cpu.stream_hold_ns;
  EXPECT_NEAR(static_cast<double>(far) / static_cast<double>(near),
              (hold + platform.link.hold_ns) / hold, 0.1);
}

TEST_F(MachineTest, FenceBehindAStreamedLineWaitsForItsHomeUnlessTheLineIsCached) {
  for (const bool cached : {false, true}) {
    build();
    if (cached) machine->load(0, pm, 8, 0);
    machine->drain(0);
    const Time before = machine->now(0);
    machine->stream(0, pm, 64);
    machine->store_fence(0);
    const Time accept = from_ns(platform.pm.write_accept_ns + platform.cpu.stream_extra_ns);
    const Time least = cached ? accept : from_ns(platform.pm.read_hit_latency_ns);
    EXPECT_GE(machine->now(0) - before, least);
    EXPECT_LT(machine->now(0) - before, least + 30 * ns);
    expect_laws();
  }
}

TEST_F(MachineTest, AStreamedLineWaitsForItsLastVersionUnlessItJoinsIt) {
  const auto lines_out = [&](std::initializer_list<unsigned> lines) {
    build();
    for (const unsigned line : lines) machine->stream(0, dram + line * 64, 64);
    const Time end = machine->now(0);
    machine->store_fence(0);
    EXPECT_EQ(machine->counters().streaming_stores, lines.size());
    return std::pair(machine->counters().dram.controller_write_bytes / 64, end);
  };
  const Time again = from_ns(platform.cpu.stream_again_ns);
  EXPECT_EQ(lines_out({0, 0, 1, 1}).first, 2U);  // the second joins
  EXPECT_LT(lines_out({0, 1, 2, 3, 4}).second, again);
  // Two lines in turn: each waits for two lines' time.
  const auto [lines, end] = lines_out({0, 1, 0, 1, 2});
  EXPECT_EQ(lines, 5U);
  EXPECT_GE(end, 2 * again);
  EXPECT_LT(end, 3 * again);
}

// One long run keeps the two lines of a pair together; those of two cores drift apart.
TEST_F(MachineTest, DirtyLinesOfSeveralCoresLeaveTheLlcOutOfOrder) {
  platform.cpu.cores_per_socket = 2;
  platform.pm.dimms = 1;
  platform.cpu.l2.bytes = 65536;
  platform.cpu.llc_per_core.bytes = 1 << 20;
  platform.cpu.llc_disorder_lines = 500;
  const auto effective_write_ratio = [&](unsigned cores) {
    build(cores == 1 ? std::vector<unsigned>{0} : std::vector<unsigned>{0, 1});
    for (std::uint64_t i = 0; i < 4096 * 64 / cores; ++i)
      for (unsigned core = 0; core < cores; ++core)
        machine->store(core, pm + core * (8 << 20) + i * 64, 8);
    const MemoryCounters& c = machine->counters().pm;
    return static_cast<double>(c.controller_write_bytes) / static_cast<double>(c.media_write_bytes);
  };
  const double one = effective_write_ratio(1);
  EXPECT_GT(one, 0.4);
  EXPECT_LT(effective_write_ratio(2), one * 0.8);
}

TEST_F(MachineTest, FlushDropsTheLineUnlessThePlatformKeepsIt) {
  for (const bool keeps : {false, true}) {
    platform.cpu.flush_keeps_line = keeps;
    build();
    machine->store(0, pm, 8);
    machine->flush(0, pm, FlushKind::clwb);
    EXPECT_EQ(machine->reaches_shared(0, pm, 8, false), !keeps);
  }
}

TEST_F(MachineTest, FlushesOfOneUncachedLineQueueBehindEachOther) {
  // I1 as published: each asks the line's home, one memory latency after the other.
  build({0, 1, 2, 3});
  for (unsigned round = 0; round < 10; ++round)
    for (unsigned core = 0; core < 4; ++core) machine->flush(core, pm, FlushKind::clwb);
  Time last = 0;
  for (unsigned core = 0; core < 4; ++core) {
    machine->store_fence(core);
    last = std::max(last, machine->now(core));
  }
  EXPECT_GE(last, 40 * from_ns(platform.pm.read_miss_latency_ns));
  EXPECT_LE(last, 42 * from_ns(platform.pm.read_miss_latency_ns + platform.pm.address_miss_ns));
}

TEST_F(MachineTest, FullWriteQueueHoldsTheNextLineBack) {
  platform.pm.dimms = 1;
  platform.pm.write_queue_lines = 2;
  platform.pm.write_buffer_xplines = 1;
  platform.pm.writes_per_table_write = 1'000'000;
  build();
  // One lone piece per XPLine: each pushes the one before to the media, which sets the pace. Those
  // that this core may have under way are the only ones that need not be through.
  constexpr unsigned lines = 200;
  for (unsigned i = 0; i < lines; ++i) machine->stream(0, pm + i * 256, 64);
  machine->store_fence(0);
  const Time write = from_ns(platform.pm.media_write_ns);
  EXPECT_GE(machine->now(0), (lines - 2 * platform.cpu.outstanding_write_backs) * write);
  EXPECT_LE(machine->now(0), lines * write + 300 * ns);
  expect_laws();
}

TEST_F(MachineTest, AFenceWaitsForTheLinesOfABurstThatTheQueueCannotHold) {
  platform.pm.dimms = 1;
  platform.pm.durable_queue_lines = 8;
  platform.pm.write_buffer_xplines = 4;
  platform.pm.writes_per_table_write = 1'000'000;
  platform.pm.directory = false;  // no wait for the home of a line
  const Time write = from_ns(platform.pm.media_write_ns);
  // Lone pieces: 4 stay in the buffer and 8 in the queue, each other waits for a media write, of
  // which the first starts at once.
  const auto burst = [&](unsigned lines) {
    build();
    for (unsigned i = 0; i < lines; ++i) machine->stream(0, pm + i * 256, 64);
    machine->store_fence(0);
    return machine->now(0);
  };
  const Time alone = burst(1);
  EXPECT_LE(burst(12), alone + 100 * ns);
  EXPECT_GE(burst(18), alone + 5 * write);
  EXPECT_LE(burst(18), alone + 5 * write + 100 * ns);
}

TEST_F(MachineTest, AFlushDoesNotTakeItsPlaceBeforeItsLineIsThere) {
  platform.pm.dimms = 1;
  build({0, 1});
  machine->store(0, pm, 8);  // its line comes after a media latency
  machine->flush(0, pm, FlushKind::clwb);
  machine->stream(1, pm + 4096, 64);
  machine->store_fence(1);
  EXPECT_LT(machine->now(1), from_ns(platform.pm.read_miss_latency_ns));
  machine->store_fence(0);
  EXPECT_GE(machine->now(0),
            from_ns(platform.pm.read_miss_latency_ns + platform.pm.write_accept_ns));
  expect_laws();
}

TEST_F(MachineTest, AStreamThatFindsTheQueueFullLeavesNoHoles) {
  platform.cpu.streamer = true;
  platform.cpu.l2_misses = 4;
  build();
  for (unsigned line = 0; line < 16; ++line) machine->load(0, pm + line * 64, 8, 0);
  const std::uint64_t misses = machine->counters().l2_misses;
  for (unsigned line = 16; line < 48; ++line) {
    machine->wait_until(0, machine->now(0) + us);
    machine->load(0, pm + line * 64, 8, 0);
  }
  EXPECT_LE(machine->counters().l2_misses, misses + 1);
}

TEST_F(MachineTest, CombinesStreamingStoresOfOneLine) {
  build();
  for (unsigned i = 0; i < 8; ++i) machine->stream(0, pm + i * 8, 8);
  machine->store_fence(0);
  EXPECT_EQ(machine->counters().pm.controller_write_bytes, 64U);
  EXPECT_EQ(machine->counters().pm.controller_read_bytes, 64U);  // its directory bits
  machine->stream(0, pm + 64, 8);  // a partial line: the controller must read the rest
  machine->store_fence(0);
  EXPECT_EQ(machine->counters().pm.controller_write_bytes, 128U);
  EXPECT_EQ(machine->counters().pm.controller_read_bytes, 3 * 64U);
}

TEST_F(MachineTest, LinkBoundsRemoteBandwidth) {
  platform.link.bandwidth_gb_s = 8;  // 80 B in 10 ns
  std::vector<unsigned> remote;
  for (unsigned i = 0; i < 8; ++i) remote.push_back(platform.cpu.cores_per_socket + i);
  build(remote);
  for (unsigned i = 0; i < 100; ++i)
    for (unsigned core = 0; core < 8; ++core) machine->load(core, dram + (i * 8 + core) * 64, 8, 0);
  Time last = 0;
  for (unsigned core = 0; core < 8; ++core) {
    machine->load_fence(core);
    last = std::max(last, machine->now(core));
  }
  EXPECT_GE(last, 800 * 10 * ns);
  EXPECT_EQ(machine->counters().upi_bytes, 800 * (80 + 16));
}

TEST_F(MachineTest, RemoteReadsWriteTheDirectoryOncePerLine) {
  for (const bool without : {false, true}) {
    ablation.no_directory = without;
    build({platform.cpu.cores_per_socket});
    machine->load(0, pm, 8, 0);
    machine->flush(0, pm, FlushKind::clwb);  // clean: only drops the line
    machine->load(0, pm, 8, 0);
    EXPECT_EQ(machine->counters().pm.directory_writes, without ? 0U : 1U);
  }
}

TEST_F(MachineTest, BooksTheTimeOfAnAbortedTransactionApart) {
  build();
  machine->compute(0, 5 * us);
  machine->transaction_begin(0);
  machine->compute(0, 3 * us);
  machine->transaction_abort(0, AbortCause::capacity);
  EXPECT_GE(machine->time_split(0).aborted_transactions, 3 * us);
  EXPECT_EQ(machine->time_split(0).compute, 5 * us);
  EXPECT_EQ(machine->counters().aborts_capacity, 1U);
  expect_laws();
}

TEST_F(MachineTest, KeepsItsLawsAndItsTimesUnderRandomTraffic) {
  platform.cpu.streamer = true;
  platform.cpu.adjacent_line = true;
  const auto run = [&](std::uint64_t seed) {
    build({0, 1, platform.cpu.cores_per_socket});
    Rng rng(seed);
    for (unsigned i = 0; i < 60000; ++i) {
      unsigned core = 0;
      for (unsigned other = 1; other < 3; ++other)
        if (machine->now(other) < machine->now(core)) core = other;
      const PhysicalAddress at = (rng.below(2) == 0 ? pm : dram) + rng.below(1 << 18) * 8;
      switch (rng.below(8)) {
        case 0:
          machine->store(core, at, 8);
          break;
        case 1:
          machine->flush(core, at, FlushKind::clwb);
          break;
        case 2:
          machine->stream(core, at, 8);
          break;
        case 3:
          machine->atomic(core, at, 8);
          break;
        case 4:
          machine->store_fence(core);
          break;
        case 5:
          machine->prefetch(core, at, PrefetchKind::write);
          break;
        default:
          machine->load(core, at, 16, machine->now(core));
          break;
      }
    }
    expect_laws();
    return machine->now(0) + 3 * machine->now(1) + 7 * machine->now(2) +
           machine->counters().pm.media_write_bytes;
  };
  const std::uint64_t first = run(7);
  EXPECT_EQ(run(7), first);
  EXPECT_NE(run(8), first);
}

}  // namespace
}  // namespace perdure::platform

// What channels are made of, against cases worked out by hand.
#include "platform/model/channel.h"

#include <gtest/gtest.h>

#include "platform/model/divisor.h"

namespace perdure::platform {
namespace {

TEST(Divisor, DividesAsTheMachineDoes) {
  Rng rng(1);
  for (const std::uint64_t by : {1ULL, 2ULL, 3ULL, 6ULL, 7ULL, 12ULL, 256ULL, 641ULL, 4096ULL,
                                 6000ULL, 1ULL << 40, (1ULL << 40) + 1, ~0ULL}) {
    const Divisor divisor(by);
    for (unsigned i = 0; i < 4000; ++i) {
      const std::uint64_t random = rng() >> rng.below(64);
      for (const std::uint64_t of : {random, random / by * by, random / by * by - 1, ~random}) {
        ASSERT_EQ(divisor.quotient(of), of / by) << of << " / " << by;
        ASSERT_EQ(divisor.remainder(of), of % by) << of << " % " << by;
      }
    }
  }
}

TEST(DramChannelTest, AWriteJoinsOneOfItsLineThatWaitsForTheBank) {
  DramParameters parameters;
  DramChannel channel(parameters);
  channel.write(0, 0);
  channel.write(0, 1 * ns);
  EXPECT_EQ(channel.counters.controller_write_bytes, 128U);
  EXPECT_EQ(channel.counters.media_write_bytes, 64U);
  channel.write(0, 1 * us);
  EXPECT_EQ(channel.counters.media_write_bytes, 128U);
}

TEST(DramChannelTest, AReadWaitsForABurstOfWritesWhereThereAreAny) {
  DramParameters parameters;
  parameters.write_burst_ns = 100;
  const auto waited = [&](unsigned writes, const Ablation& ablation) {
    DramChannel channel(parameters, ablation);
    for (unsigned i = 0; i < writes; ++i) channel.write(i, 0);
    return channel.read(1000, 30 * ns, true).waited;
  };
  EXPECT_EQ(waited(0, {}), 0U);
  EXPECT_GT(waited(40, {}), waited(40, {.no_write_hindrance = true}));
  EXPECT_LT(waited(40, {}), from_ns(parameters.write_burst_ns));
}

TEST(OutstandingTest, CountsRequestsWhoseEndsComeInNoOrder) {
  Outstanding requests;
  requests.push(400 * ns);
  requests.push(100 * ns);
  requests.push(200 * ns);
  EXPECT_EQ(requests.at(50 * ns), 3U);
  EXPECT_EQ(requests.at(150 * ns), 2U);
  EXPECT_EQ(requests.at(300 * ns), 1U);
  requests.push(350 * ns);
  EXPECT_EQ(requests.at(390 * ns), 1U);
  EXPECT_EQ(requests.at(500 * ns), 0U);
}

TEST(OutstandingTest, KeepsARequestThatEndsFarAhead) {
  Outstanding requests;
  requests.push(ms);
  EXPECT_EQ(requests.at(100 * us), 1U);
  EXPECT_EQ(requests.at(2 * ms), 0U);
}

TEST(LaterWritesTest, ComeInOrderOfTimeAndNotBeforeIt) {
  LaterWrites writes;
  writes.push(1, 300);
  writes.push(2, 100);
  writes.push(3, 200);
  EXPECT_FALSE(writes.due(99));
  ASSERT_TRUE(writes.due(200));
  EXPECT_EQ(writes.pop().line, 2U);
  ASSERT_TRUE(writes.due(200));
  EXPECT_EQ(writes.pop().line, 3U);
  EXPECT_FALSE(writes.due(200));
  ASSERT_TRUE(writes.due(300));
  EXPECT_EQ(writes.pop().line, 1U);
  EXPECT_FALSE(writes.due(~Time{0}));
}

DramParameters one_channel() {
  DramParameters parameters;
  parameters.channels = 1;
  parameters.write_burst_ns = 0;
  return parameters;
}
constexpr LineAddress line_of(std::uint64_t bytes) { return bytes / 64; }

// 32 banks of a line each, then the next column of the first one's row.
TEST(DramChannelTest, TheLatencyOfTheLastRowIsLess) {
  DramChannel dram(one_channel());
  EXPECT_EQ(dram.read(line_of(0), 0, true).latency, from_ns(88 + 13));
  EXPECT_EQ(dram.read(line_of(64), ms, true).latency, from_ns(88 + 13)) << "another bank";
  EXPECT_EQ(dram.read(line_of(32 * 64), ms, true).latency, from_ns(88));
  EXPECT_EQ(dram.read(line_of(32 * 8192), 2 * ms, true).latency, from_ns(88 + 13)) << "next row";
}

// 2 KiB apart: the same bank, so one each tRC, in one row as in several.
TEST(DramChannelTest, AccessesToABankFollowEachOther) {
  DramChannel dram(one_channel());
  for (std::uint64_t i = 0; i < 8; ++i)
    EXPECT_EQ(dram.read(line_of(i << (i < 4 ? 11 : 18)), 0, true).waited, i * from_ns(45)) << i;
  EXPECT_LT(dram.read(line_of(64), 0, true).waited, from_ns(45)) << "another bank";
}

// Blocks of 256 B go round six channels: what is 4 KiB apart lies in one bank of three channels.
TEST(DramChannelTest, InterleavedLinesArePlacedByWhatIsLeftOfThem) {
  DramChannel dram{DramParameters{}};
  for (std::uint64_t i = 0; i < 4; ++i)
    EXPECT_EQ(dram.read(line_of(i * 3 * 4096), 0, true).waited, i * from_ns(45)) << i;
  EXPECT_LT(dram.read(line_of(6 * 256), 0, true).waited, from_ns(45)) << "another bank";
}

TEST(DramChannelTest, WritesToABankTakeItsRecoveryToo) {
  DramChannel dram(one_channel());
  for (std::uint64_t i = 0; i < 4; ++i)
    EXPECT_EQ(dram.write(line_of(i << 14), 0).taken, i * from_ns(60) + from_ns(4.64)) << i;
}

TEST(DramChannelTest, ReadsGoBeforeWritesOfTheirBank) {
  DramChannel dram(one_channel());
  for (std::uint64_t i = 0; i < 4; ++i) dram.write(line_of(i << 14), 0);
  EXPECT_EQ(dram.read(line_of(9 << 14), 0, true).waited, 0U);
  EXPECT_EQ(dram.write(line_of(5 << 14), 0).taken, 4 * from_ns(60) + from_ns(45 + 4.64));
}

}  // namespace
}  // namespace perdure::platform

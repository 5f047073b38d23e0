// Callers: places of flushes and stores that carriers made.
#include "crash/callers.h"

#include <gtest/gtest.h>

#include "crash/image.h"
#include "crash/places.h"
#include "crash/recorder.h"
#include "pm/pm.h"

namespace perdure::pm {
/// Stands for a function of the facade that the compiler did not inline.
[[gnu::noinline]] void flush_out_of_line(const void* address) {
  flush(address, 1);
  asm volatile("" ::: "memory");  // or the flush becomes a jump, without a frame
}
}  // namespace perdure::pm

namespace perdure::crash {
namespace {

TEST(CallersTest, TheFacadeAndTheStandardLibraryCarry) {
  EXPECT_TRUE(is_carrier("perdure::pm::flush(void const*, unsigned long)"));
  EXPECT_TRUE(is_carrier("std::atomic<unsigned long>::store(unsigned long, std::memory_order)"));
  EXPECT_TRUE(is_carrier("bool perdure::pm::elide<perdure::Tree>(unsigned int, perdure::Tree)"));
  EXPECT_TRUE(is_carrier("void std::swap<mine::Node>(mine::Node&, mine::Node&)"));
  EXPECT_FALSE(is_carrier("mine::insert(std::string const&)"));
  EXPECT_FALSE(is_carrier("std::string mine::show<std::string>(int)"));
  EXPECT_FALSE(is_carrier("main"));
}

TEST(CallersTest, TwoCallersOfOneFlushAreTwoPlaces) {
  EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
  Memory memory(4096);
  Recorder recorder(memory.base(), memory.bytes(), Recorder::Options{});
  unsigned first_line = 0;
  const Recorder::Run run = recorder.run([&](unsigned) {
    first_line = __LINE__ + 1;
    pm::flush_out_of_line(memory.base());
    pm::flush_out_of_line(memory.base() + 64);
    asm volatile("" ::: "memory");
  });
  Places places;
  std::vector<unsigned> lines;
  for (const Event& event : run.trace)
    if (event.kind == Event::Kind::flush) lines.push_back(places.of(event.pc).line);
  EXPECT_EQ(lines, (std::vector<unsigned>{first_line, first_line + 1}));
  EXPECT_EQ(run.sites.size(), 2U);
}

}  // namespace
}  // namespace perdure::crash

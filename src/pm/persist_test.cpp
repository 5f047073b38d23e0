#include "pm/persist.h"

#include <gtest/gtest.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <x86intrin.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "core/rng.h"

namespace perdure::pm {
namespace {

sigjmp_buf after_fault;

void on_fault(int) { siglongjmp(after_fault, 1); }

/// Runs `body`; true when it touched memory that is not accessible.
template <class Body>
bool faults(const Body& body) {
  struct sigaction action {};
  struct sigaction old {};
  action.sa_handler = on_fault;
  sigaction(SIGSEGV, &action, &old);
  volatile bool faulted = true;
  if (sigsetjmp(after_fault, 1) == 0) {
    body();
    faulted = false;
  }
  sigaction(SIGSEGV, &old, nullptr);
  return faulted;
}

class PersistTest : public testing::Test {
 protected:
  ~PersistTest() override { configure(Durability::adr); }
};

// A flush of a line on an inaccessible page faults, so the first and last line can be observed.
TEST_F(PersistTest, FlushTouchesExactlyTheLinesOfTheRange) {
  configure(Durability::adr);
  constexpr std::size_t page = 4096;
  auto* memory = static_cast<std::byte*>(
      mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(memory), MAP_FAILED);
  ASSERT_EQ(mprotect(memory, page, PROT_NONE), 0);
  ASSERT_EQ(mprotect(memory + 2 * page, page, PROT_NONE), 0);
  std::byte* open = memory + page;
  for (std::size_t from = 0; from < 130; ++from) {
    EXPECT_FALSE(faults([&] { flush(open + from, page - from); })) << from;
    EXPECT_TRUE(faults([&] { flush(open + from, page - from + 1); })) << from;
  }
  for (std::size_t bytes = 1; bytes < 130; ++bytes) {
    EXPECT_FALSE(faults([&] { flush(open, bytes); })) << bytes;
    EXPECT_TRUE(faults([&] { flush(open - 1, bytes); })) << bytes;
  }
  EXPECT_FALSE(faults([&] { flush(open + page, 0); }));
  munmap(memory, 3 * page);
}

// clflush evicts, so a flushed line is slow to read. A stride longer than a line would leave fast
// ones among the slow.
TEST_F(PersistTest, FlushLeavesNoLineOfTheRangeOut) {
  ASSERT_TRUE(configure(Durability::adr, FlushInstruction::clflush).ok());
  constexpr std::size_t lines = 24;
  constexpr std::size_t first = 4;
  constexpr std::size_t last = 19;
  alignas(4096) static std::byte memory[lines * cache_line_bytes];
  const auto read_cycles = [](std::size_t line) {
    unsigned processor = 0;
    const auto* at = reinterpret_cast<volatile std::uint64_t*>(memory + line * cache_line_bytes);
    _mm_mfence();
    const std::uint64_t begin = __rdtscp(&processor);
    static_cast<void>(*at);
    return __rdtscp(&processor) - begin;
  };
  const auto median_after_flush = [&](std::size_t line) {
    std::vector<std::uint64_t> cycles(101);
    for (std::uint64_t& sample : cycles) {
      for (std::size_t i = 0; i < lines; ++i) read_cycles(i);
      flush(memory + first * cache_line_bytes + 1, (last - first) * cache_line_bytes);
      fence();
      sample = read_cycles(line);
    }
    std::ranges::nth_element(cycles, cycles.begin() + 50);
    return cycles[50];
  };
  const std::uint64_t kept = std::max(median_after_flush(1), median_after_flush(lines - 2));
  for (std::size_t line = first; line <= last; ++line)
    EXPECT_GT(median_after_flush(line), kept + kept / 4) << "line " << line;
}

TEST_F(PersistTest, OnlyAdrFlushes) {
  auto* hidden =
      static_cast<std::byte*>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (const Durability durability : {Durability::eadr, Durability::none}) {
    configure(durability);
    EXPECT_EQ(persist_mode().flush, FlushInstruction::none);
    EXPECT_FALSE(faults([&] { flush(hidden, 4096); }));
  }
  configure(Durability::adr);
  EXPECT_EQ(persist_mode().flush, detect_flush_instruction());
  EXPECT_TRUE(faults([&] { flush(hidden, 1); }));
  munmap(hidden, 4096);
}

TEST_F(PersistTest, EveryFlushInstructionKeepsTheContent) {
  alignas(64) std::uint64_t words[64];
  for (const FlushInstruction instruction :
       {FlushInstruction::clflush, FlushInstruction::clflushopt, FlushInstruction::clwb}) {
    const Result<void> configured = configure(Durability::adr, instruction);
    if (!configured) {
      EXPECT_EQ(configured.error().code, ErrorCode::unsupported);
      continue;
    }
    EXPECT_EQ(persist_mode().flush, instruction);
    for (std::uint64_t i = 0; i < 64; ++i) words[i] = mix64(i);
    persist(words, sizeof words);
    for (std::uint64_t i = 0; i < 64; ++i) EXPECT_EQ(words[i], mix64(i));
  }
  std::atomic<std::uint64_t> word{1};
  store_persist(word, 2);
  EXPECT_EQ(word.load(), 2U);
}

TEST_F(PersistTest, StreamCopiesExactlyTheRange) {
  for (const Durability durability : {Durability::adr, Durability::eadr, Durability::none}) {
    configure(durability);
    for (std::size_t words = 0; words <= 40; ++words) {
      for (std::size_t shift = 0; shift < 8; ++shift) {
        std::vector<std::uint64_t> source(64);
        std::vector<std::uint64_t> destination(64, 7);
        for (std::size_t i = 0; i < 64; ++i) source[i] = mix64(i + 100);
        stream(&destination[shift], &source[3], words * 8);
        fence();
        for (std::size_t i = 0; i < 64; ++i)
          ASSERT_EQ(destination[i], i >= shift && i < shift + words ? source[i - shift + 3] : 7);
      }
    }
  }
}

TEST_F(PersistTest, NamesAreThoseOfTheCommandLine) {
  EXPECT_STREQ(name_of(Durability::adr), "adr");
  EXPECT_STREQ(name_of(Durability::eadr), "eadr");
  EXPECT_STREQ(name_of(Durability::none), "none");
  EXPECT_STREQ(name_of(FlushInstruction::clwb), "clwb");
}

}  // namespace
}  // namespace perdure::pm

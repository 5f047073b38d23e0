// The recorder: what copies of objects, hardware transactions and code without hooks leave in the
// trace.
#include "crash/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "crash/image.h"
#include "crash/persistency.h"
#include "pm/pm.h"

namespace perdure::crash {
namespace {

class RecorderTest : public testing::Test {
 protected:
  RecorderTest() {
    platform::Observer::offers_transactions = true;
    pm::configure_transactions(pm::TransactionUse::on);
    EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
  }
  ~RecorderTest() override {
    platform::Observer::offers_transactions = false;
    pm::configure_transactions(pm::TransactionUse::off);
  }

  struct alignas(64) Words {
    std::array<std::atomic<std::uint64_t>, 16> word{};
  };
  Words memory_;
  Recorder recorder_{reinterpret_cast<const std::byte*>(&memory_), sizeof memory_, {}};

  static std::vector<Event> stores(const Trace& trace) {
    std::vector<Event> found;
    for (const Event& event : trace)
      if (event.kind == Event::Kind::store) found.push_back(event);
    return found;
  }
};

TEST_F(RecorderTest, StoresOfACommittedTransactionAreOneGroup) {
  const auto run = recorder_.run([&](unsigned) {
    memory_.word[0].store(1, std::memory_order_relaxed);
    EXPECT_TRUE(pm::elide(1, [&] {
      memory_.word[1].store(2, std::memory_order_relaxed);
      memory_.word[9].store(3, std::memory_order_relaxed);
    }));
    memory_.word[2].store(4, std::memory_order_relaxed);
  });
  const auto found = stores(run.trace);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0].group, 0U);
  EXPECT_NE(found[1].group, 0U);
  EXPECT_EQ(found[1].group, found[2].group);
  EXPECT_EQ(found[3].group, 0U);
}

TEST_F(RecorderTest, AnAbortedTransactionLeavesNothing) {
  std::atomic<std::uint64_t> elsewhere{5};
  unsigned turns = 0;
  const auto run = recorder_.run([&](unsigned) {
    EXPECT_FALSE(pm::elide(2, [&] {
      memory_.word[1].store(2, std::memory_order_relaxed);
      elsewhere.store(6, std::memory_order_relaxed);
      pm::abort_transaction();
    }));
    EXPECT_EQ(memory_.word[1].load(), 0U);
    EXPECT_EQ(elsewhere.load(), 5U);
    ++turns;
  });
  EXPECT_EQ(turns, 1U);
  EXPECT_TRUE(stores(run.trace).empty());
}

TEST_F(RecorderTest, ManyOperationsAreNoHangAndOneThatDoesNotEndIs) {
  constexpr std::uint64_t most_steps = 100;
  const auto hangs = [&](std::uint32_t operations, unsigned stores_of_each) {
    Recorder recorder(reinterpret_cast<const std::byte*>(&memory_), sizeof memory_,
                      {.threads = 1, .schedule = {}, .most_steps = most_steps, .mutation = {}});
    return recorder
        .run([&](unsigned) {
          for (std::uint32_t i = 0; i < operations; ++i) {
            recorder.called(i);
            for (unsigned n = 0; n < stores_of_each; ++n) pm::store_persist(memory_.word[0], n);
            recorder.returned(i);
          }
        })
        .hung;
  };
  EXPECT_FALSE(hangs(50, 20));
  EXPECT_TRUE(hangs(1, 200));
}

TEST_F(RecorderTest, AFlushInsideATransactionAbortsIt) {
  const auto run = recorder_.run([&](unsigned) {
    EXPECT_FALSE(pm::elide(1, [&] {
      memory_.word[1].store(2, std::memory_order_relaxed);
      pm::flush(&memory_.word[1], 8);
    }));
  });
  EXPECT_EQ(memory_.word[1].load(), 0U);
  EXPECT_TRUE(stores(run.trace).empty());
}

// Where something is visible and not durable: of a mutant, where its own doing lasts.
TEST_F(RecorderTest, OfAMutantPreemptionsMatterUntilTheNextFence) {
  const std::function<void(unsigned)> job = [&](unsigned) {
    memory_.word[0].store(1, std::memory_order_relaxed);
    pm::flush(&memory_.word[0], 8);
    pm::fence();
    memory_.word[8].store(2, std::memory_order_relaxed);
    memory_.word[9].fetch_add(1);  // a fence, too
    memory_.word[10].store(3, std::memory_order_relaxed);
  };
  const auto sound = recorder_.run(job);
  ASSERT_EQ(sound.steps.flushes.size(), 1U);
  const std::uint64_t flush = sound.steps.flushes[0];
  const auto fence = std::ranges::find_if(sound.sites, &Site::is_fence);
  ASSERT_NE(fence, sound.sites.end());
  Recorder::Options options;
  options.mutation = {Mutation::Kind::drop, fence->pc};
  Recorder without(reinterpret_cast<const std::byte*>(&memory_), sizeof memory_, options);
  EXPECT_THAT(without.run(job).steps.exposed,
              testing::ElementsAre(flush + 1, flush + 2, flush + 3));
}

// In functions of their own, so that the compiler copies whole objects and not what it knows.
template <class Element, std::size_t count>
struct Elements {
  using Array = std::array<Element, count>;
  static constexpr std::size_t bytes = sizeof(Array);

  __attribute__((noinline)) static void assign(void* to, const void* from, std::size_t) {
    *static_cast<Array*>(to) = *static_cast<const Array*>(from);
  }
  __attribute__((noinline)) static void copy(void* to, const void* from, std::size_t) {
    std::ranges::copy(*static_cast<const Array*>(from), static_cast<Array*>(to)->begin());
  }
  __attribute__((noinline)) static void one_by_one(void* to, const void* from, std::size_t) {
    for (std::size_t i = 0; i < count; ++i)
      (*static_cast<Array*>(to))[i] = (*static_cast<const Array*>(from))[i];
  }
  __attribute__((noinline)) static void copy_constant(void* to, const void* from, std::size_t) {
    std::memcpy(to, from, bytes);
  }
  __attribute__((noinline)) static void move_constant(void* to, const void* from, std::size_t) {
    std::memmove(to, from, bytes);
  }
};
template <std::size_t count>
struct Pair {
  std::uint64_t first;
  std::array<std::uint64_t, count> rest;

  __attribute__((noinline)) static void assign(void* to, const void* from, std::size_t) {
    *static_cast<Pair*>(to) = *static_cast<const Pair*>(from);
  }
};
__attribute__((noinline)) void copy_variable(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

struct Way {
  const char* name;
  std::size_t bytes;
  std::size_t alignment;
  void (*copy)(void* to, const void* from, std::size_t bytes);
};

template <class Element, std::size_t count>
void add_ways(std::vector<Way>& ways) {
  using Each = Elements<Element, count>;
  const auto add = [&](const char* name, auto* copy) {
    ways.push_back({name, Each::bytes, alignof(Element), copy});
  };
  add("assignment", Each::assign);
  add("std::copy", Each::copy);
  add("one by one", Each::one_by_one);
  add("memcpy", Each::copy_constant);
  add("memmove", Each::move_constant);
  add("memcpy of a variable size", copy_variable);
}

std::vector<Way> ways() {
  std::vector<Way> all;
  add_ways<std::uint64_t, 1>(all);
  add_ways<std::uint32_t, 3>(all);
  add_ways<unsigned char, 16>(all);
  add_ways<unsigned char, 41>(all);
  add_ways<std::uint64_t, 2>(all);
  add_ways<std::uint64_t, 3>(all);
  add_ways<std::uint64_t, 4>(all);
  add_ways<std::uint64_t, 5>(all);
  add_ways<std::uint64_t, 8>(all);
  add_ways<std::uint64_t, 16>(all);
  add_ways<std::uint64_t, 64>(all);
  all.push_back({"assignment of a struct", sizeof(Pair<1>), 8, Pair<1>::assign});
  all.push_back({"assignment of a struct", sizeof(Pair<4>), 8, Pair<4>::assign});
  return all;
}

/// A page of persistent memory: the first half is copied to, from the second half or the stack.
class CopyTest : public RecorderTest {
 protected:
  static constexpr std::size_t bytes = 4096;
  static constexpr std::size_t half = bytes / 2;
  using Page = std::array<std::byte, bytes>;
  enum class Source : std::uint8_t { here, stack, here_elided };
  static constexpr Source sources[] = {Source::here, Source::stack, Source::here_elided};

  /// Every byte differs between what is copied and what is overwritten.
  void fill() {
    for (std::size_t i = 0; i < bytes; ++i)
      page_[i] = static_cast<std::byte>((i * 37 & 0x7f) | (i < half ? 0 : 0x80));
  }

  /// Copies to `at`, flushes its lines but `forgotten`, fences, and brings image and model to that.
  void copy(const Way& way, std::size_t at, Source source,
            std::optional<LineNumber> forgotten = std::nullopt) {
    fill();
    image_.load(page_.data());
    std::byte* const to = page_.data() + at;
    const std::byte* const from = page_.data() + half + at;
    const auto run = recorder_.run([&](unsigned) {
      if (source == Source::stack) {
        alignas(8) std::array<std::byte, half> local;
        std::memcpy(local.data(), from, way.bytes);
        way.copy(to, local.data(), way.bytes);
      } else if (source == Source::here) {
        way.copy(to, from, way.bytes);
      } else {
        static_cast<void>(pm::elide(1, [&] { way.copy(to, from, way.bytes); }));
      }
      for (std::size_t line = first(at); line <= last(way, at); ++line)
        if (line != forgotten) pm::flush(page_.data() + line * line_bytes, line_bytes);
      pm::fence();
    });
    model_.emplace(image_, image_.lines(), Domain::adr, 1);
    std::uint32_t number = 0;
    for (const Event& event : run.trace) {
      if (event.kind == Event::Kind::store)
        model_->store(0, event.at, event.size, event.value, number, event.group, event.plain);
      else if (event.kind == Event::Kind::flush)
        model_->flush(0, event.at / line_bytes, static_cast<Persistency::Flush>(event.size));
      else if (event.kind == Event::Kind::fence || event.kind == Event::Kind::locked)
        model_->fence(0);
      ++number;
    }
  }
  static LineNumber first(std::size_t at) { return static_cast<LineNumber>(at / line_bytes); }
  static LineNumber last(const Way& way, std::size_t at) {
    return static_cast<LineNumber>((at + way.bytes - 1) / line_bytes);
  }
  [[nodiscard]] LineContent now(LineNumber line) const {
    LineContent content;
    std::memcpy(content.data(), page_.data() + line * line_bytes, line_bytes);
    return content;
  }

  /// Calls `check(way, at, source)` for all of them.
  template <class Check>
  void each(Check check) {
    for (const Way& way : ways())
      for (const std::size_t at : {0U, 8U, 40U, 56U, 61U})
        for (const Source source : sources) {
          if (at % way.alignment != 0) continue;
          SCOPED_TRACE(way.name + (" of " + std::to_string(way.bytes)) + " bytes to " +
                       std::to_string(at) + ", source " +
                       std::to_string(static_cast<unsigned>(source)));
          check(way, at, source);
        }
  }

  alignas(line_bytes) Page page_{};
  Image image_{bytes};
  std::optional<Persistency> model_;
  Recorder recorder_{page_.data(), bytes, {}};
};

TEST_F(CopyTest, WhatIsFlushedIsOnMediaWithItsNewValue) {
  each([&](const Way& way, std::size_t at, Source source) {
    copy(way, at, source);
    EXPECT_TRUE(std::equal(page_.begin() + static_cast<std::ptrdiff_t>(at),
                           page_.begin() + static_cast<std::ptrdiff_t>(at + way.bytes),
                           page_.begin() + static_cast<std::ptrdiff_t>(at + half)));
    EXPECT_TRUE(std::ranges::equal(image_.memory().span(), page_));
    EXPECT_TRUE(model_->open_lines().empty());
  });
}

TEST_F(CopyTest, ALineThatIsNotFlushedMayHoldOldAndNew) {
  each([&](const Way& way, std::size_t at, Source source) {
    for (LineNumber line = first(at); line <= last(way, at); ++line) {
      copy(way, at, source, line);
      const auto choices = model_->choices(line);
      ASSERT_GE(choices.size(), 2U);
      EXPECT_EQ(choices.front().content, image_.read(line));
      EXPECT_NE(choices.front().content, now(line));
      EXPECT_EQ(choices.back().content, now(line));
      EXPECT_THAT(model_->open_lines(), testing::ElementsAre(line));
    }
  });
}

/// Two threads, of which the first waits for a word that the second stores to.
class WaitingTest : public testing::Test {
 protected:
  std::atomic<std::uint64_t>& word_ = memory_.emplace();

  [[nodiscard]] Recorder::Run wait(std::uint16_t pauses, unsigned& paused) {
    word_ = 0;
    Recorder recorder(reinterpret_cast<const std::byte*>(&word_), sizeof word_,
                      {.threads = 2, .schedule = {.pauses = pauses}, .mutation = {}});
    return recorder.run([&](unsigned thread) {
      if (thread == 1) word_.fetch_add(1);
      for (paused = thread == 0 ? 0 : paused; word_.load() == 0; ++paused) pm::pause();
    });
  }

 private:
  std::optional<std::atomic<std::uint64_t>> memory_;
};

TEST_F(WaitingTest, AThreadThatWaitsPausesAsOftenAsItsScheduleSays) {
  for (const unsigned pauses : {1U, 16U, 64U}) {
    unsigned paused = 0;
    EXPECT_FALSE(wait(static_cast<std::uint16_t>(pauses), paused).hung);
    EXPECT_EQ(paused, pauses);
  }
}

TEST_F(WaitingTest, StepsBeforeAndAfterALockIsTakenAreTold) {
  unsigned paused = 0;
  const Recorder::Run run = wait(1, paused);
  ASSERT_EQ(run.steps.locks.size(), 2U);
  EXPECT_EQ(run.steps.locks[0] + 1, run.steps.locks[1]);
}

TEST(EventSourceTest, AForeignFlushTellsWhatNothingExplains) {
  alignas(64) std::array<std::uint64_t, 16> now{};
  const std::array<std::uint64_t, 16> before{};
  const auto* const base = reinterpret_cast<const std::byte*>(now.data());
  EventSource source(base, sizeof now);
  source.explain_from(reinterpret_cast<const std::byte*>(before.data()), base);
  source.begin_store(0, &now[0], 8, nullptr, EventSource::Access::plain);
  now[0] = 1;  // announced
  now[3] = 7;  // not announced, flushed below
  now[9] = 8;  // neither
  source.foreign_flush(0, &now[2], 16, nullptr);
  ASSERT_EQ(source.trace.size(), 3U);
  EXPECT_EQ(source.trace[0].value, 1U);
  EXPECT_EQ(source.trace[0].group, 0U);
  EXPECT_EQ(source.trace[1].at, 24U);
  EXPECT_EQ(source.trace[1].value, 7U);
  EXPECT_NE(source.trace[1].group, 0U);
  EXPECT_EQ(source.trace[2].kind, Event::Kind::flush);
  source.foreign_flush(0, &now[2], 16, nullptr);
  EXPECT_EQ(source.trace.size(), 4U) << "told once";
}

}  // namespace
}  // namespace perdure::crash

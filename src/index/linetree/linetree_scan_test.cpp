// Scans of one moment (`validated=1`) beside writers: each answer must fit a moment between the
// scan's call and its return at which every writer was between two of its operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "index/linetree/test_support.h"

namespace perdure {
namespace {

using linetree_test::large_pool;
using linetree_test::name;
using linetree_test::Store;
using linetree_test::succeeds;

constexpr unsigned writers = 2;
constexpr std::uint64_t keys_of_each = 40;
constexpr std::uint64_t spacing = 16;  // between a writer's key and the next: room for others

template <class Keys>
auto key_of(std::uint64_t number) {
  if constexpr (has_text_keys<Keys>)
    return name(number);
  else
    return number;
}
template <class Value>
auto value_of(std::uint64_t stamp) {
  if constexpr (std::is_same_v<Value, std::string_view>)
    return std::to_string(stamp);
  else
    return stamp;
}
std::uint64_t stamp_of(std::uint64_t value) { return value; }
std::uint64_t stamp_of(std::string_view value) { return std::stoull(std::string(value)); }

/// When operations began and ended, by a clock of all threads. 0: not yet.
class Times {
 public:
  static constexpr std::size_t most_operations = 200'000;
  std::vector<std::atomic<std::uint64_t>> begin =
      std::vector<std::atomic<std::uint64_t>>(most_operations + 2);
  std::vector<std::atomic<std::uint64_t>> end =
      std::vector<std::atomic<std::uint64_t>>(most_operations + 2);
};

/// Operation s of a writer, from 1 on, gives its key number (s - 1) % keys_of_each the stamp s.
template <class Keys>
class Witness {
 public:
  explicit Witness(OrderedIndex<Keys>& index) : index_(index) {
    for (std::uint64_t n = 0; n < writers * keys_of_each; ++n)
      EXPECT_EQ(index_.insert(key_of<Keys>(n * spacing), value_of<Value>(0)), Outcome::ok);
  }

  void write(unsigned writer) {
    Times& times = times_[writer];
    for (std::uint64_t s = 1; !stop && s < Times::most_operations; ++s) {
      times.begin[s] = ++clock_;
      const std::uint64_t number = (s - 1) % keys_of_each * writers + writer;
      EXPECT_EQ(index_.update(key_of<Keys>(number * spacing), value_of<Value>(s)), Outcome::ok);
      times.end[s] = ++clock_;
    }
  }

  /// Makes leaves split and merge between the writers' keys.
  void churn() {
    Rng rng(5);
    while (!stop) {
      const std::uint64_t from = rng.below(writers * keys_of_each) * spacing;
      for (std::uint64_t n = from + 1; n < from + 8 * spacing; ++n)
        if (n % spacing != 0) (void)index_.insert(key_of<Keys>(n), value_of<Value>(0));
      for (std::uint64_t n = from + 1; n < from + 8 * spacing; ++n)
        if (n % spacing != 0) (void)index_.remove(key_of<Keys>(n));
    }
  }

  /// True: the answer is that of one moment.
  [[nodiscard]] bool scan_is_of_one_moment() {
    const std::uint64_t called = ++clock_;
    index_.scan(key_of<Keys>(0), 20'000, scan_);
    std::uint64_t latest = ++clock_;
    std::uint64_t earliest = called;
    std::vector<std::uint64_t> stamps;
    for (std::size_t i = 0; i < scan_.size(); ++i) {
      const auto key = key_of<Keys>(stamps.size() * spacing);
      if (scan_[i].key == key) stamps.push_back(stamp_of(scan_[i].value));
    }
    if (stamps.size() != writers * keys_of_each) return false;
    for (unsigned writer = 0; writer < writers; ++writer) {
      std::uint64_t done = 0;
      for (std::uint64_t n = writer; n < stamps.size(); n += writers)
        done = std::max(done, stamps[n]);
      for (std::uint64_t k = 0; k < keys_of_each; ++k) {
        const std::uint64_t expected =
            done <= k ? 0 : (done - k - 1) / keys_of_each * keys_of_each + k + 1;
        if (stamps[k * writers + writer] != expected) return false;
      }
      const Times& times = times_[writer];
      earliest = std::max(earliest, times.begin[done].load());
      const std::uint64_t next_end = times.end[done + 1];
      if (next_end != 0) latest = std::min(latest, next_end);
    }
    return earliest <= latest;
  }

  std::atomic<bool> stop{false};

 private:
  using Value = typename Keys::Value;

  OrderedIndex<Keys>& index_;
  std::atomic<std::uint64_t> clock_{0};
  std::array<Times, writers> times_;
  typename Keys::Scan scan_;
};

template <class Keys>
void scans_beside_writers(std::vector<std::string> options, unsigned scans) {
  SCOPED_TRACE(options.back());
  options.emplace_back("validated=1");
  options.emplace_back("lines=4");
  Store<Keys> store(std::move(options), HeapKind::slab, large_pool);
  Witness<Keys> witness(store.index());
  {
    std::vector<std::jthread> running;
    for (unsigned writer = 0; writer < writers; ++writer)
      running.emplace_back([&, writer] { witness.write(writer); });
    running.emplace_back([&] { witness.churn(); });
    for (unsigned i = 0; i < scans; ++i) {
      const bool one_moment = witness.scan_is_of_one_moment();
      EXPECT_TRUE(one_moment) << "scan " << i;
      if (!one_moment) break;
    }
    witness.stop = true;
  }
  EXPECT_TRUE(succeeds(store.index().check_invariants()));
}

// With one stripe any writer disturbs any scan, so most scans end by locking; with few, leaves come
// into the range whose stripes are not locked yet; with many, most scans need no lock.
TEST(LineTreeScans, AValidatedScanIsOfOneMoment) {
  for (const char* const stripes : {"lock_stripes=1", "lock_stripes=4", "lock_stripes=32768"}) {
    scans_beside_writers<IntegerKeys>({stripes}, 1000);
    scans_beside_writers<ByteKeys>({stripes}, 300);
    scans_beside_writers<SlotKeys>({stripes}, 300);
  }
}

TEST(LineTreeScans, ValidatedScansAnswerAsOthers) {
  Store<ByteKeys> store({"validated=1", "lines=4"});
  linetree_test::BytesModel model;
  for (std::uint64_t n = 0; n < 300; ++n) {
    ASSERT_EQ(store.index().insert(name(n * 7), name(n)), Outcome::ok);
    model[name(n * 7)] = name(n);
  }
  linetree_test::expect_equal(store.index(), model);
  BytesScan scan;
  EXPECT_EQ(store.index().scan(name(8), 5, scan), 5U);
  EXPECT_EQ(scan[0].key, name(14));
  EXPECT_EQ(store.index().scan(name(8), 0, scan), 0U);
  EXPECT_EQ(store.index().scan("z", 5, scan), 0U);
}

}  // namespace
}  // namespace perdure

#include "pool/pmdk_trial.h"

#include <fcntl.h>
#include <libpmemobj.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "core/rng.h"
#include "pm/pm.h"
#include "pool/file.h"
#include "pool/test_support.h"

namespace perdure {
namespace {

/// A closed pool with blocks of many classes, whose bytes a test changes.
class PmdkTrial : public testing::Test {
 protected:
  PmdkTrial() {
    pm::configure(pm::Durability::adr);
    const auto pool = must(Pool::create(options()));
    Reservation root = pool->heap().reserve(256);
    EXPECT_TRUE(pool->add_root("index", root).ok());
    for (std::size_t i = 0; i < 400; ++i) {
      Reservation block = pool->heap().reserve(16 + i % 40 * 32);
      pool->heap().publish({&block, 1});
    }
    constexpr std::uint64_t descriptor_heap_offset = 4096 + 1024 + 16;
    std::memcpy(&heap_at_, pool->base() + descriptor_heap_offset, sizeof heap_at_);
    EXPECT_TRUE(pool->close().ok());
    file_ = File(::open(folder_.file().c_str(), O_RDWR | O_CLOEXEC));
  }

  [[nodiscard]] PoolOptions options() const { return small_pool(folder_.file(), HeapKind::pmdk); }
  void write(std::uint64_t offset, const std::string& bytes) const {
    ASSERT_EQ(pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes.size()));
  }
  [[nodiscard]] std::string read(std::uint64_t offset, std::size_t bytes) const {
    std::string text(bytes, '\0');
    EXPECT_EQ(pread(file_.get(), text.data(), bytes, static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes));
    return text;
  }

  TestFolder folder_;
  File file_;
  std::uint64_t heap_at_ = 0;
};

// What libpmemobj keeps of its chunks is covered by no checksum, and some of it kills.
TEST_F(PmdkTrial, DamageThatKillsLibpmemobjIsAnErrorAndKeptAsItIs) {
  constexpr std::size_t telling_bytes = 2048;  // the heap's header, the first zone's and chunks'
  const std::string good = read(heap_at_, telling_bytes);
  Rng rng(17);
  unsigned deadly = 0;
  for (int trial = 0; trial < 120 && deadly < 2; ++trial) {
    std::string bad = good;
    const std::size_t at = 1024 + rng.below(telling_bytes - 1024);
    bad[at] = static_cast<char>(bad[at] ^ static_cast<char>(1 + rng.below(255)));
    write(heap_at_, bad);
    const int status = in_child([&] {
      const auto pool = Pool::open(options());
      const bool told = !pool.ok() && pool.error().what.starts_with("libpmemobj d");
      _exit(pool.ok() ? 0 : told && pool.error().code == ErrorCode::corrupt ? 2 : 1);
    });
    ASSERT_TRUE(WIFEXITED(status)) << "byte " << at << " killed the process";
    if (WEXITSTATUS(status) == 2) {
      ++deadly;
      EXPECT_EQ(read(heap_at_, telling_bytes), bad) << "a refused pool was written";
    }
    write(heap_at_, good);
  }
  EXPECT_GT(deadly, 0U) << "nothing that was tried kills libpmemobj";
  EXPECT_TRUE(Pool::open(options()).ok());
}

TEST_F(PmdkTrial, ASoundPoolIsNotWrittenAndOtherThreadsAreNoMatter) {
  const std::string before = read(0, Pool::min_pool_bytes);
  std::atomic<bool> done{false};
  std::thread busy([&] {
    while (!done.load()) std::free(std::malloc(100));
  });
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(try_pmdk_pool(folder_.file(), "perdure", Pool::min_pool_bytes).ok());
  done = true;
  busy.join();
  EXPECT_TRUE(read(0, Pool::min_pool_bytes) == before);
}

// The child of a process that was killed while it tried the pool may still hold the lock, between
// any two of ours.
TEST_F(PmdkTrial, ALockHeldForAMomentIsWaitedFor) {
  std::atomic<bool> done{false};
  std::thread other([&] {
    for (; !done.load(); usleep(1000)) {
      if (flock(file_.get(), LOCK_EX | LOCK_NB) != 0) continue;
      usleep(1000);
      flock(file_.get(), LOCK_UN);
    }
  });
  for (int i = 0; i < 20; ++i) {
    const auto pool = Pool::open(options());
    EXPECT_TRUE(pool.ok()) << pool.error().line();
  }
  done = true;
  other.join();
}

// The crash explorer opens copies by the thousand.
TEST_F(PmdkTrial, CopiesAreOpenedWithoutAChild) {
  const int status = in_child([&] {
    int copies = 1;
    if (pmemobj_ctl_set(nullptr, "copy_on_write.at_open", &copies) != 0) _exit(1);
    write(heap_at_ + 1024, std::string(1024, '\x7f'));
    _exit(try_pmdk_pool(folder_.file(), "perdure", Pool::min_pool_bytes).ok() ? 0 : 2);
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace perdure

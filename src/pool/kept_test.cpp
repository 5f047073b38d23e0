// What a clean close keeps, and what the next opening makes of it.
#include <fcntl.h>

#include <cstring>
#include <vector>

#include "pm/pm.h"
#include "pool/file.h"
#include "pool/header.h"
#include "pool/test_support.h"

namespace perdure {
namespace {

struct Shape {
  HeapKind heap = HeapKind::slab;
  unsigned parts = 1;
};

/// Two roots, each with some blocks that their owners know.
class KeptAtClose : public testing::TestWithParam<Shape> {
 protected:
  KeptAtClose() {
    pm::configure(pm::Durability::adr);
    const auto pool = must(Pool::create(options()));
    for (unsigned root = 0; root < 2; ++root) {
      Reservation block = pool->heap().reserve(256);
      EXPECT_TRUE(pool->add_root(names[root], block).ok());
      for (std::size_t i = 0; i < 50; ++i) {
        Reservation more = pool->heap().reserve(sizes[i % 3]);
        pool->heap().publish({&more, 1});
        blocks_[root].push_back({more.offset, more.bytes});
      }
    }
    const auto [gone, bytes] = blocks_[0].back();  // in a cache of the heap, and not live
    pool->heap().free(gone, bytes);
    blocks_[0].pop_back();
    settle(*pool);
    EXPECT_TRUE(pool->close().ok());
  }

  [[nodiscard]] PoolOptions options() const {
    PoolOptions made = small_pool(folder_.file(), GetParam().heap);
    made.parts = GetParam().parts;
    made.bytes *= made.parts;
    return made;
  }
  static void settle(Pool& pool, std::uint64_t more = 0) {
    pool.note_settled(names[0], 1000 + more);
    pool.note_settled(names[1], 24);
  }
  /// Recovers as owners would that find what `left_out` and `records` say.
  [[nodiscard]] Result<void> recover(Pool& pool, std::size_t left_out,
                                     std::uint64_t records) const {
    for (unsigned root = 0; root < 2; ++root) {
      for (std::size_t i = root == 0 ? left_out : 0; i < blocks_[root].size(); ++i)
        EXPECT_TRUE(pool.heap().mark(blocks_[root][i].first, blocks_[root][i].second));
      if (auto done = pool.root_recovered(names[root]); !done) return done;
    }
    EXPECT_TRUE(pool.check_records(names[0], records).ok()) << "until all have said so";
    return pool.check_records(names[1], 24);
  }

  static constexpr std::array<const char*, 2> names{"index", "other"};
  static constexpr std::array<std::size_t, 3> sizes{64, 200, 1152};
  TestFolder folder_;
  std::array<std::vector<std::pair<std::uint64_t, std::size_t>>, 2> blocks_;
};

INSTANTIATE_TEST_SUITE_P(Pools, KeptAtClose,
                         testing::Values(Shape{}, Shape{HeapKind::slab, 2}, Shape{HeapKind::pmdk}),
                         [](const auto& info) {
                           return std::string(name_of(info.param.heap)) +
                                  std::to_string(info.param.parts);
                         });

TEST_P(KeptAtClose, TheSameContentIsTheSame) {
  for (int round = 0; round < 3; ++round) {
    const auto pool = must(Pool::open(options()));
    EXPECT_TRUE(pool->was_clean());
    const auto recovered = recover(*pool, 0, 1000);
    ASSERT_TRUE(recovered.ok()) << recovered.error().line();
    settle(*pool);
    EXPECT_TRUE(pool->close().ok());
  }
}

TEST_P(KeptAtClose, AMissingBlockIsCorruptionAndStaysSo) {
  for (int round = 0; round < 2; ++round) {
    const auto pool = must(Pool::open(options()));
    EXPECT_TRUE(pool->was_clean());
    const auto recovered = recover(*pool, 1, 1000);
    ASSERT_FALSE(recovered.ok()) << "round " << round;
    EXPECT_EQ(recovered.error().code, ErrorCode::corrupt);
    EXPECT_EQ(recovered.error().where, folder_.file());
    if (round == 1) {
      EXPECT_TRUE(pool->close().ok());
    }
  }
  const auto whole = must(Pool::open(options()));
  EXPECT_TRUE(recover(*whole, 0, 1000).ok()) << "a sound pool is not condemned for ever";
}

TEST_P(KeptAtClose, OtherRecordsAreCorruptionAndStaySo) {
  for (int round = 0; round < 2; ++round) {
    const auto pool = must(Pool::open(options()));
    const auto recovered = recover(*pool, 0, 999);
    ASSERT_FALSE(recovered.ok()) << "round " << round;
    EXPECT_EQ(recovered.error().code, ErrorCode::corrupt);
    EXPECT_NE(recovered.error().what.find("1023 records, and held 1024"), std::string::npos);
  }
}

// The opening alone, durably, makes the numbers void.
TEST_P(KeptAtClose, AfterACrashNothingIsCompared) {
  { const auto crashed = must(Pool::open(options())); }
  const auto pool = must(Pool::open(options()));
  EXPECT_FALSE(pool->was_clean());
  EXPECT_FALSE(pool->expects_records());
  EXPECT_TRUE(recover(*pool, 1, 5).ok());
  settle(*pool, 7);
  EXPECT_TRUE(pool->close().ok());
  EXPECT_TRUE(recover(*must(Pool::open(options())), 1, 1007).ok());
}

TEST_P(KeptAtClose, WithoutAWordOfTheOwnersNothingIsKept) {
  {
    const auto pool = must(Pool::open(options()));
    EXPECT_TRUE(recover(*pool, 0, 1000).ok());
    pool->note_settled(names[0], 1000);  // and the other says nothing
    EXPECT_TRUE(pool->close().ok());
  }
  const auto pool = must(Pool::open(options()));
  EXPECT_TRUE(pool->was_clean());
  EXPECT_FALSE(pool->expects_records());
  EXPECT_TRUE(recover(*pool, 1, 5).ok());
}

TEST_P(KeptAtClose, APoolThatNobodyRecoveredKeepsWhatItHad) {
  EXPECT_TRUE(must(Pool::open(options()))->close().ok());
  EXPECT_FALSE(recover(*must(Pool::open(options())), 1, 1000).ok());
}

// Blocks of the same number elsewhere: only the sum tells.
TEST(KeptSum, OtherBlocksOfTheSameNumberAreNoticed) {
  pm::configure(pm::Durability::adr);
  const TestFolder folder;
  std::array<Reservation, 3> block;
  {
    const auto pool = must(Pool::create(small_pool(folder.file())));
    Reservation root = pool->heap().reserve(64);
    EXPECT_TRUE(pool->add_root("index", root).ok());
    for (Reservation& each : block) each = pool->heap().reserve(64);
    pool->heap().publish(block);
    pool->heap().free(block[2].offset, 64);
    pool->note_settled("index", 2);
    EXPECT_TRUE(pool->close().ok());
  }
  for (const auto& [second, same] : {std::pair{2, false}, std::pair{1, true}}) {
    const auto pool = must(Pool::open(small_pool(folder.file())));
    EXPECT_TRUE(pool->heap().mark(block[0].offset, 64));
    EXPECT_TRUE(pool->heap().mark(block[static_cast<std::size_t>(second)].offset, 64));
    EXPECT_EQ(pool->root_recovered("index").ok(), same);
  }
}

// An index that is served early: what it frees before the sweep was marked all the same.
TEST(KeptEarly, TheSweepComparesWhatWasMarkedInSpiteOfFrees) {
  pm::configure(pm::Durability::adr);
  for (const bool damaged : {false, true}) {
    const TestFolder folder;
    std::array<Reservation, 3> block;
    Reservation root;
    {
      const auto pool = must(Pool::create(small_pool(folder.file())));
      root = pool->heap().reserve(64);
      auto* const high_water = new (pool->at<void>(root.offset)) std::atomic<std::uint64_t>(0);
      EXPECT_TRUE(pool->add_root("index", root).ok());
      EXPECT_TRUE(pool->heap().keep_high_water(*high_water));
      for (Reservation& each : block) each = pool->heap().reserve(64);
      pool->heap().publish(block);
      pool->note_settled("index", 3);
      EXPECT_TRUE(pool->close().ok());
    }
    const auto pool = must(Pool::open(small_pool(folder.file())));
    auto& high_water = *pool->at<std::atomic<std::uint64_t>>(pool->roots().front().offset);
    const auto early = pool->recover_later("index", high_water);
    ASSERT_TRUE(early.ok() && *early);
    Reservation fresh = pool->heap().reserve(64);
    pool->heap().publish({&fresh, 1});
    for (std::size_t i = damaged ? 1 : 0; i < block.size(); ++i)
      EXPECT_TRUE(pool->heap().mark(block[i].offset, 64));
    pool->heap().free(block[2].offset, 64);
    EXPECT_EQ(pool->finish_recovery().ok(), !damaged);
  }
}

TEST(KeptVersions, APoolOfTheFirstLayoutOpensAndKeepsNothing) {
  pm::configure(pm::Durability::adr);
  const TestFolder folder;
  EXPECT_TRUE(must(Pool::create(small_pool(folder.file())))->close().ok());
  const File file(::open(folder.file().c_str(), O_RDWR | O_CLOEXEC));
  const auto header_now = [&] {
    PoolHeader header;
    EXPECT_EQ(pread(file.get(), static_cast<void*>(&header), sizeof header, 0),
              static_cast<ssize_t>(sizeof header));
    return std::pair(header.layout_version, header.kept.is_empty());
  };
  EXPECT_EQ(header_now(), std::pair(pool_layout_version, false)) << "even an empty pool";
  {
    PoolHeader header;
    ASSERT_GT(pread(file.get(), static_cast<void*>(&header), sizeof header, 0), 0);
    header.layout_version = 1;
    header.kept = {};
    header.checksum = header.compute_checksum();
    ASSERT_GT(pwrite(file.get(), static_cast<const void*>(&header), sizeof header, 0), 0);
  }
  EXPECT_TRUE(must(Pool::open(small_pool(folder.file())))->close().ok());
  EXPECT_EQ(header_now(), std::pair(std::uint32_t{1}, true));
  EXPECT_TRUE(must(Pool::open(small_pool(folder.file())))->was_clean());
}

}  // namespace
}  // namespace perdure

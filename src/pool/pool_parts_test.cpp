// Pools of several parts: the files, what belongs together, and where blocks come from.
#include <fcntl.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "pm/pm.h"
#include "pool/file.h"
#include "pool/header.h"
#include "pool/parts_heap.h"
#include "pool/test_support.h"

namespace perdure {
namespace {

namespace fs = std::filesystem;

constexpr unsigned parts = 2;
constexpr std::size_t piece_bytes = 1024;

PoolOptions two_parts(const std::string& path) {
  PoolOptions options = small_pool(path);
  options.parts = parts;
  options.bytes = parts * Pool::min_pool_bytes + 4096;  // so that there is a gap between them
  return options;
}

std::string content(const std::string& path) {
  std::string bytes(fs::file_size(path), '\0');
  std::ifstream(path, std::ios::binary)
      .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

unsigned part_of(const Pool& pool, std::uint64_t offset) {
  for (unsigned n = 0; n < pool.parts(); ++n) {
    const std::span<std::byte> part = pool.part(n);
    if (pool.at<std::byte>(offset) >= part.data() &&
        pool.at<std::byte>(offset) < part.data() + part.size())
      return n;
  }
  ADD_FAILURE() << offset << " lies in no part";
  return pool.parts();
}

/// On a thread beside this one, which so has another slot.
template <class Work>
void beside(const Work& work) {
  std::thread(work).join();
}

class PoolPartsTest : public testing::Test {
 protected:
  PoolPartsTest() { pm::configure(pm::Durability::adr); }

  [[nodiscard]] PoolOptions options(const char* name = "pool") const {
    return two_parts(folder_.file(name));
  }
  /// A closed pool with a root in its first part.
  std::string make(const char* name) {
    auto pool = must(Pool::create(options(name)));
    Reservation block = pool->heap().reserve(64);
    EXPECT_TRUE(pool->add_root("index", block).ok());
    EXPECT_TRUE(pool->close().ok());
    return options(name).path;
  }
  /// What opening comes to, in a line that names `path`; no file is changed.
  [[nodiscard]] ErrorCode refusal(const PoolOptions& wanted, const std::string& path) {
    std::vector<std::pair<std::string, std::string>> before;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      before.emplace_back(entry.path(), content(entry.path()));
    const auto pool = Pool::open(wanted);
    EXPECT_FALSE(pool.ok());
    if (pool.ok()) return ErrorCode::failed;
    EXPECT_THAT(pool.error().line(), testing::HasSubstr(path));
    EXPECT_EQ(pool.error().line().find('\n'), std::string::npos);
    for (const auto& [file, bytes] : before) EXPECT_TRUE(content(file) == bytes) << file;
    return pool.error().code;
  }

  TestFolder folder_;
};

// A block comes from the thread's part, and from the other one where that is full.
TEST_F(PoolPartsTest, BlocksComeFromTheNearestPartThatHasRoom) {
  const auto pool = must(Pool::create(options()));
  Heap& heap = pool->heap();
  EXPECT_EQ(pool->parts(), parts);
  EXPECT_EQ(pool->bytes(), pool->part(0).size() + pool->part(1).size());
  EXPECT_LT(pool->bytes(), pool->extent_bytes());
  Reservation mine = heap.reserve(piece_bytes);
  const unsigned home = part_of(*pool, mine.offset);
  Reservation other;
  beside([&] { other = heap.reserve(piece_bytes); });
  ASSERT_NE(part_of(*pool, other.offset), home);
  std::array<std::uint64_t, parts> blocks{};
  for (Reservation block = mine; block; block = heap.reserve(piece_bytes)) {
    const unsigned part = part_of(*pool, block.offset);
    ASSERT_TRUE(pool->contains(block.offset, piece_bytes));
    if (part != home) {
      EXPECT_GT(blocks[home], 0.9 * Pool::min_pool_bytes / piece_bytes);
    }
    ++blocks[part];
  }
  for (const std::uint64_t count : blocks)
    EXPECT_GT(count, 0.9 * Pool::min_pool_bytes / piece_bytes);
  EXPECT_EQ(heap.usage().live_blocks, blocks[0] + blocks[1] + 1);
  EXPECT_GT(heap.usage().reserved_bytes, 0.9 * static_cast<double>(pool->bytes()));
  // What is given back goes to the part that it came from.
  heap.cancel(other);
  EXPECT_EQ(other.offset, null_offset);
  beside([&] { other = heap.reserve(piece_bytes); });
  EXPECT_NE(part_of(*pool, other.offset), home);
}

TEST_F(PoolPartsTest, OneThreadTakesThePartsInTurn) {
  const auto pool = must(Pool::create(options()));
  Heap& heap = pool->heap();
  const auto part = [&] {
    const Reservation block = heap.reserve(piece_bytes);
    return part_of(*pool, block.offset);
  };
  const unsigned home = part();
  {
    PartsInTurn turns(heap);
    EXPECT_EQ(part(), home) << "until told";
    for (const unsigned expected : {0U, 1U, 0U, 1U}) {
      turns.next();
      EXPECT_EQ(part(), expected);
      EXPECT_EQ(part(), expected);
      beside([&] { EXPECT_NE(part(), home) << "another thread's is its own"; });
    }
  }
  EXPECT_EQ(part(), home);
  const auto single = must(Pool::create(small_pool(folder_.file("single"))));
  PartsInTurn nothing(single->heap());
  nothing.next();
  EXPECT_TRUE(single->heap().reserve(piece_bytes));
}

TEST_F(PoolPartsTest, NoOffsetOutsideThePartsIsContained) {
  const auto pool = must(Pool::create(options()));
  const std::uint64_t second = pool->offset_of(pool->part(1).data());
  const std::uint64_t bytes = pool->part(0).size();
  EXPECT_EQ(pool->base() + second, pool->part(1).data());
  EXPECT_TRUE(pool->contains(bytes - 64, 64));
  EXPECT_FALSE(pool->contains(bytes - 64, 72)) << "into the gap";
  EXPECT_FALSE(pool->contains(bytes, 8)) << "in the gap";
  EXPECT_FALSE(pool->contains(second, 8)) << "the second header";
  EXPECT_TRUE(pool->contains(second + 4096, 64));
  EXPECT_TRUE(pool->contains(second + bytes - 64, 64));
  EXPECT_FALSE(pool->contains(second + bytes - 64, 72));
  EXPECT_FALSE(pool->contains(2 * second + 4096, 8)) << "no third part";
  EXPECT_FALSE(pool->contains(~std::uint64_t{7}, 8));
}

// P5, H4: blocks of both parts that lead to each other, marked through one heap.
TEST_F(PoolPartsTest, LinksAcrossPartsSurviveReopeningAtAnotherAddress) {
  auto pool = must(Pool::create(options()));
  Reservation root = pool->heap().reserve(64);
  Reservation far;
  beside([&] { far = pool->heap().reserve(piece_bytes); });
  const std::uint64_t link = far.offset;
  ASSERT_NE(part_of(*pool, root.offset), part_of(*pool, link));
  std::strcpy(pool->at<char>(link), "far away");
  pm::persist(pool->at<char>(link), 64);
  *pool->at<std::uint64_t>(root.offset) = link;
  pm::persist(pool->at<char>(root.offset), 8);
  pool->heap().publish({&far, 1});
  ASSERT_TRUE(pool->add_root("index", root).ok());
  std::byte* const before = pool->base();
  const std::string uuid = pool->uuid();
  PoolOptions elsewhere = options();
  elsewhere.map_address = reinterpret_cast<std::uint64_t>(before) - (std::uint64_t{1} << 38);
  for (const bool clean : {false, true}) {
    if (clean) {
      ASSERT_TRUE(pool->close().ok());
    }
    pool.reset();
    pool = must(Pool::open(elsewhere));
    EXPECT_NE(pool->base(), before);
    EXPECT_EQ(pool->was_clean(), clean);
    EXPECT_EQ(pool->uuid(), uuid);
    ASSERT_EQ(pool->roots().size(), 1U);
    const std::uint64_t found = *pool->at<std::uint64_t>(pool->roots()[0].offset);
    EXPECT_EQ(found, link);
    EXPECT_STREQ(pool->at<char>(found), "far away");
    EXPECT_FALSE(pool->ready());
    EXPECT_TRUE(pool->heap().mark(found, piece_bytes));
    EXPECT_TRUE(pool->heap().is_marked(found));
    EXPECT_FALSE(pool->heap().mark(found, piece_bytes)) << "twice";
    EXPECT_FALSE(pool->heap().mark(found + 4 * Pool::min_pool_bytes, piece_bytes)) << "no part";
    ASSERT_TRUE(pool->root_recovered("index").ok());
    EXPECT_EQ(pool->heap().usage().live_blocks, 2U);
    Reservation next;
    beside([&] { next = pool->heap().reserve(piece_bytes); });
    EXPECT_NE(next.offset, link);
    pool->heap().cancel(next);
  }
}

TEST_F(PoolPartsTest, APoolIsOpenedWithAllItsPartsOrNotAtAll) {
  const std::string path = make("pool");
  const std::string other = make("other");
  EXPECT_TRUE(must(Pool::open(options()))->close().ok());
  fs::rename(path + ".1", path + ".kept");
  EXPECT_EQ(refusal(options(), path + ".1"), ErrorCode::not_found) << "missing";
  fs::copy(other + ".1", path + ".1");
  EXPECT_EQ(refusal(options(), path + ".1"), ErrorCode::foreign) << "of another pool";
  fs::copy(path, path + ".1", fs::copy_options::overwrite_existing);
  EXPECT_EQ(refusal(options(), path + ".1"), ErrorCode::foreign) << "the first one again";
  fs::copy(path + ".kept", path + ".1", fs::copy_options::overwrite_existing);
  fs::resize_file(path + ".1", Pool::min_pool_bytes);
  EXPECT_EQ(refusal(options(), path + ".1"), ErrorCode::truncated);
  std::ofstream(path + ".1") << "a diary";
  EXPECT_EQ(refusal(options(), path + ".1"), ErrorCode::foreign) << "no pool";
  fs::rename(path + ".kept", path + ".1");
  PoolOptions wrong = options();
  wrong.parts = 1;
  EXPECT_EQ(refusal(wrong, path), ErrorCode::foreign) << "as a pool of one part";
  wrong.parts = 3;
  EXPECT_EQ(refusal(wrong, path), ErrorCode::foreign) << "as a pool of three";
  wrong = options();
  wrong.path = path + ".1";
  EXPECT_EQ(refusal(wrong, path + ".1"), ErrorCode::foreign) << "by its second part";
  EXPECT_TRUE(must(Pool::open(options()))->was_clean()) << "after all that";
}

TEST_F(PoolPartsTest, APartInUseIsBusy) {
  const std::string path = make("pool");
  const auto file = File(::open((path + ".1").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(lock_file(file, path).ok());
  EXPECT_EQ(refusal(options(), path + ".1"), ErrorCode::busy);
  PoolOptions replacing = options();
  replacing.overwrite = true;
  EXPECT_EQ(Pool::create(replacing).error().code, ErrorCode::busy);
}

TEST_F(PoolPartsTest, CreationTakesAllNamesOrNone) {
  const std::string path = options().path;
  std::ofstream(path + ".1") << "a diary";
  EXPECT_EQ(Pool::create(options()).error().code, ErrorCode::exists);
  EXPECT_EQ(folder_.entries(), 1U);
  EXPECT_EQ(content(path + ".1"), "a diary");
  PoolOptions small = options("small");
  small.bytes = parts * Pool::min_pool_bytes - 4096;
  EXPECT_EQ(Pool::create(small).error().code, ErrorCode::usage);
  PoolOptions many = options("many");
  many.parts = Pool::max_parts + 1;
  EXPECT_EQ(Pool::create(many).error().code, ErrorCode::usage);
  PoolOptions pmdk = options("pmdk");
  pmdk.heap = HeapKind::pmdk;
  EXPECT_EQ(Pool::create(pmdk).error().code, ErrorCode::unsupported);
  EXPECT_EQ(folder_.entries(), 1U);
}

TEST_F(PoolPartsTest, OverwritingReplacesEveryPartAndLeavesNone) {
  const std::string path = make("pool");
  PoolOptions replacing = options();
  replacing.overwrite = true;
  const std::string uuid = must(Pool::open(options()))->uuid();
  EXPECT_NE(must(Pool::create(replacing))->uuid(), uuid);
  EXPECT_TRUE(must(Pool::open(options()))->roots().empty());
  std::ofstream(path + ".2") << "a diary";
  PoolOptions single = small_pool(path);
  single.overwrite = true;
  EXPECT_TRUE(must(Pool::create(single))->close().ok());
  EXPECT_FALSE(fs::exists(path + ".1")) << "part of the pool that was replaced";
  EXPECT_EQ(content(path + ".2"), "a diary");
}

TEST_F(PoolPartsTest, ThePathSaysWhereThePartsNumberGoes) {
  fs::create_directory(folder_.file("mount0"));
  fs::create_directory(folder_.file("mount1"));
  const PoolOptions spread = two_parts(folder_.file("mount{part}/pool"));
  EXPECT_TRUE(must(Pool::create(spread))->close().ok());
  EXPECT_TRUE(fs::exists(folder_.file("mount0/pool")));
  EXPECT_TRUE(fs::exists(folder_.file("mount1/pool")));
  EXPECT_TRUE(must(Pool::open(spread))->was_clean());
}

TEST_F(PoolPartsTest, AnonymousMemoryHasParts) {
  PoolOptions memory = options();
  memory.heap = HeapKind::dram;
  memory.nodes = {0, 1};
  const auto pool = must(Pool::create(memory));
  EXPECT_EQ(pool->parts(), parts);
  EXPECT_TRUE(pool->heap().reserve(64));
  EXPECT_EQ(folder_.entries(), 0U);
}

TEST_F(PoolPartsTest, AnImageHoldsParts) {
  constexpr std::size_t bytes = std::size_t{1} << 20;
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(4096, bytes)), &std::free);
  const std::span<std::byte> span(memory.get(), bytes);
  EXPECT_EQ(Pool::create_in(span, 3).error().code, ErrorCode::usage);
  {
    const auto pool = must(Pool::create_in(span, parts));
    EXPECT_EQ(pool->bytes(), bytes);
    EXPECT_EQ(pool->extent_bytes(), bytes);
    Reservation block;
    beside([&] { block = pool->heap().reserve(64); });
    EXPECT_TRUE(pool->add_root("index", block).ok());
  }
  EXPECT_EQ(must(Pool::open_in(span))->roots().size(), 1U);
  EXPECT_EQ(Pool::open_in(span.first(bytes / 2)).error().code, ErrorCode::truncated);
  span[bytes / 2 + 40] ^= std::byte{1};
  EXPECT_EQ(Pool::open_in(span).error().code, ErrorCode::corrupt);
}

}  // namespace
}  // namespace perdure

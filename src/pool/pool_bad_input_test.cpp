// Files that are no whole pool: each is one clear error, never a crash, and is never written (P4).
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include "pm/pm.h"
#include "pool/header.h"
#include "pool/test_support.h"

namespace perdure {
namespace {

constexpr std::uint64_t page = 4096;

class BadPoolTest : public testing::TestWithParam<HeapKind> {
 protected:
  BadPoolTest() {
    pm::configure(pm::Durability::adr);
    auto pool = must(Pool::create(options()));
    for (const char* name : {"index", "other"}) {
      Reservation block = pool->heap().reserve(256);
      EXPECT_TRUE(pool->add_root(name, block).ok());
    }
    header_at_ = header_offset(*pool);
    EXPECT_TRUE(pool->close().ok());
    file_ = ::open(folder_.file().c_str(), O_RDWR | O_CLOEXEC);
  }
  ~BadPoolTest() override { ::close(file_); }

  [[nodiscard]] PoolOptions options() const { return small_pool(folder_.file(), GetParam()); }

  // The header carries our magic; nothing else in a new pool does.
  static std::uint64_t header_offset(const Pool& pool) {
    for (std::uint64_t at = 0; at < pool.bytes(); at += 16)
      if (std::memcmp(pool.base() + at, pool_magic.data(), pool_magic.size()) == 0) return at;
    return 0;
  }
  [[nodiscard]] std::vector<std::uint8_t> read(std::uint64_t offset, std::size_t bytes) const {
    std::vector<std::uint8_t> data(bytes);
    EXPECT_EQ(pread(file_, data.data(), bytes, static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes));
    return data;
  }
  void write(std::uint64_t offset, const std::vector<std::uint8_t>& data) const {
    ASSERT_EQ(pwrite(file_, data.data(), data.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(data.size()));
  }
  void flip(std::uint64_t bit) const {
    std::vector<std::uint8_t> byte = read(bit / 8, 1);
    byte[0] = static_cast<std::uint8_t>(byte[0] ^ (1U << bit % 8));
    write(bit / 8, byte);
  }
  [[nodiscard]] Error open_error() const {
    const auto pool = Pool::open(options());
    if (pool.ok()) return {ErrorCode::failed, "opened", "", ""};
    EXPECT_EQ(pool.error().line().find('\n'), std::string::npos);
    EXPECT_NE(pool.error().line().find(folder_.file()), std::string::npos);
    return pool.error();
  }

  TestFolder folder_;
  std::uint64_t header_at_ = 0;
  int file_ = -1;
};

INSTANTIATE_TEST_SUITE_P(Heaps, BadPoolTest, testing::Values(HeapKind::pmdk, HeapKind::slab),
                         heap_name);

TEST_P(BadPoolTest, AMissingFileIsNotFound) {
  PoolOptions missing = options();
  missing.path = folder_.file("nothing");
  EXPECT_EQ(Pool::open(missing).error().code, ErrorCode::not_found);
  missing.path = folder_.file("no/folder");
  EXPECT_EQ(Pool::open(missing).error().code, ErrorCode::not_found);
  EXPECT_NE(Pool::create(missing).error().line(), "");
  missing.path = "";
  EXPECT_FALSE(Pool::open(missing).ok());
  EXPECT_FALSE(Pool::create(missing).ok());
  EXPECT_EQ(folder_.entries(), 1U);
}

TEST_P(BadPoolTest, WhatIsNoFileIsForeign) {
  PoolOptions other = options();
  other.path = folder_.path();
  EXPECT_EQ(Pool::open(other).error().code, ErrorCode::foreign);
  other.overwrite = true;
  EXPECT_FALSE(Pool::create(other).ok());
  other.path = folder_.file("fifo");
  ASSERT_EQ(mkfifo(other.path.c_str(), 0600), 0);
  EXPECT_EQ(Pool::open(other).error().code, ErrorCode::foreign) << "and does not block";
  EXPECT_EQ(Pool::create(other).error().code, ErrorCode::foreign)
      << "nothing but files is replaced";
  struct stat status {};
  ASSERT_EQ(stat(other.path.c_str(), &status), 0);
  EXPECT_TRUE(S_ISFIFO(status.st_mode));
}

// A terminal's device: no file can take its place there, even if the refusal were missing.
TEST_P(BadPoolTest, ADeviceOfAnotherKindIsNeverReplaced) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(grantpt(terminal), 0);
  ASSERT_EQ(unlockpt(terminal), 0);
  PoolOptions device = options();
  device.path = ptsname(terminal);
  device.overwrite = true;
  EXPECT_EQ(Pool::open(device).error().code, ErrorCode::foreign);
  EXPECT_EQ(Pool::create(device).error().code, ErrorCode::foreign);
  close(terminal);
}

TEST_P(BadPoolTest, ALinkIsFollowedAndKept) {
  const std::string link = folder_.file("link");
  std::filesystem::create_symlink(folder_.file(), link);
  PoolOptions through = options();
  through.path = link;
  EXPECT_EQ(Pool::create(through).error().code, ErrorCode::exists);
  EXPECT_TRUE(Pool::open(through).ok());
  through.overwrite = true;
  EXPECT_TRUE(must(Pool::create(through))->roots().empty());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(must(Pool::open(options()))->roots().empty());
}

TEST_P(BadPoolTest, AForeignFileIsRefusedAndKept) {
  const std::string path = folder_.file("letter");
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{100'000}}) {
    std::ofstream(path, std::ios::trunc) << std::string(bytes, 'x');
    PoolOptions letter = options();
    letter.path = path;
    EXPECT_EQ(Pool::open(letter).error().code, ErrorCode::foreign) << bytes;
    EXPECT_EQ(std::filesystem::file_size(path), bytes);
  }
}

TEST_P(BadPoolTest, ATruncatedPoolIsRefusedAndKept) {
  const std::vector<std::uint8_t> whole = read(0, Pool::min_pool_bytes);
  std::set<std::uint64_t> lengths{0, 1, 7, 8, 63, 64, 4095, Pool::min_pool_bytes - 1};
  for (std::uint64_t pages = 1; pages < Pool::min_pool_bytes / page; pages += pages < 4 ? 1 : 499)
    lengths.insert(pages * page);
  for (const std::uint64_t length : lengths) {
    ASSERT_EQ(ftruncate(file_, 0), 0);
    write(0, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)});
    const ErrorCode code = open_error().code;
    // libpmemobj's signature alone does not say whose pool it was.
    if (GetParam() == HeapKind::pmdk && length < 8192) {
      EXPECT_TRUE(code == ErrorCode::truncated || code == ErrorCode::foreign) << length;
    } else {
      EXPECT_EQ(code, ErrorCode::truncated) << length;
    }
    EXPECT_EQ(std::filesystem::file_size(folder_.file()), length);
    EXPECT_EQ(read(0, length),
              std::vector(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
  }
  write(0, whole);
  EXPECT_EQ(open_error().what, "opened") << "the test must not refuse everything";
}

// P1 and P2: a flipped bit is found, or lies where nothing is kept.
TEST_P(BadPoolTest, EveryFlippedBitOfTheHeaderIsFoundOrHarmless) {
  const std::vector<std::uint8_t> whole = read(header_at_, page);
  constexpr std::uint64_t first_free_root = offsetof(PoolHeader, root) + 2 * 64;
  constexpr std::uint64_t roots_end = offsetof(PoolHeader, unused_end);
  unsigned harmless = 0;
  // libpmemobj takes milliseconds to open a pool: every third bit, so that each place in a byte has
  // its turn.
  const unsigned apart = GetParam() == HeapKind::pmdk ? 3 : 1;
  for (std::uint64_t bit = 0; bit < page * 8;
       bit += bit / 8 < first_free_root + 64 || bit / 8 >= page - 8 ? apart : 61) {
    flip(header_at_ * 8 + bit);
    const std::uint64_t byte = bit / 8;
    const bool in_free_root = byte >= first_free_root && byte < roots_end && byte % 64 < 56;
    const auto pool = Pool::open(options());
    if (in_free_root) {
      ++harmless;
      ASSERT_TRUE(pool.ok()) << "bit " << bit;
      EXPECT_EQ((*pool)->roots().size(), 2U);
    } else {
      ASSERT_FALSE(pool.ok()) << "bit " << bit;
      const ErrorCode code = pool.error().code;
      EXPECT_TRUE(code == ErrorCode::corrupt || (byte < 8 && code == ErrorCode::foreign))
          << "bit " << bit << ": " << pool.error().line();
      std::vector<std::uint8_t> expected = whole;
      expected[byte] = static_cast<std::uint8_t>(expected[byte] ^ (1U << bit % 8));
      ASSERT_EQ(read(header_at_, page), expected) << "a refused pool was written, bit " << bit;
    }
    write(header_at_, whole);
  }
  EXPECT_GT(harmless, 400U / apart);
}

TEST_P(BadPoolTest, ANewerLayoutIsNamedAndNotTouched) {
  const std::vector<std::uint8_t> whole = read(header_at_, page);
  PoolHeader header;
  std::memcpy(static_cast<void*>(&header), whole.data(), sizeof header);
  header.layout_version = pool_layout_version + 1;
  header.checksum = header.compute_checksum();
  std::vector<std::uint8_t> newer(page);
  std::memcpy(newer.data(), &header, page);
  write(header_at_, newer);
  const Error error = open_error();
  EXPECT_EQ(error.code, ErrorCode::newer);
  EXPECT_NE(error.what.find("version " + std::to_string(pool_layout_version + 1)),
            std::string::npos);
  EXPECT_EQ(read(header_at_, page), newer);
}

TEST_P(BadPoolTest, HeadersThatContradictThemselvesAreCorrupt) {
  const std::vector<std::uint8_t> whole = read(header_at_, page);
  constexpr std::uint64_t tag = PoolHeader::Root::commit_tag;
  using Change = void (*)(PoolHeader&);
  const std::vector<std::pair<Change, ErrorCode>> changes{
      {[](PoolHeader& h) { h.layout_version = 0; }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.header_bytes = 0; }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.heap_kind = 2; }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.heap_kind = 9; }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.unused[3] = 1; }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.pool_bytes = 4096; }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.pool_bytes += 1; }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.pool_bytes = ~std::uint64_t{4095}; }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.pool_bytes *= 2; }, ErrorCode::truncated},
      {[](PoolHeader& h) { h.heap_offset = h.pool_bytes; }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.heap_offset += 64; }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.root[0].commit = tag | (h.pool_bytes - 64); }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.root[0].commit = tag | 8; }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.root[0].commit = tag | 8, h.root[0].name[1] = '\n'; },
       ErrorCode::corrupt},
      {[](PoolHeader& h) { h.root[0].commit = h.root[0].offset(); }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.root[0].bytes = ~std::uint64_t{0}; }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.root[0].bytes = 0; }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.root[0].name.fill('x'); }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.root[0].name.fill('\0'); }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.root[0].name = h.root[1].name; }, ErrorCode::corrupt},
      {[](PoolHeader& h) { h.root[0].commit = h.root[1].commit.load(); }, ErrorCode::corrupt},
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    PoolHeader header;
    std::memcpy(static_cast<void*>(&header), whole.data(), sizeof header);
    changes[i].first(header);
    for (PoolHeader::Root& root : header.root)
      if (root.commit != 0) root.checksum = root.checksum_with(root.commit);
    header.checksum = header.compute_checksum();
    std::vector<std::uint8_t> changed(page);
    std::memcpy(changed.data(), &header, page);
    write(header_at_, changed);
    EXPECT_EQ(open_error().code, changes[i].second) << "change " << i;
    EXPECT_EQ(read(header_at_, page), changed) << "change " << i;
  }
  write(header_at_, whole);
  EXPECT_EQ(open_error().what, "opened");
}

TEST_P(BadPoolTest, TooBigAPoolIsOutOfSpaceAndLeavesNothing) {
  struct statvfs system {};
  ASSERT_EQ(statvfs(folder_.path().c_str(), &system), 0);
  PoolOptions big = options();
  big.path = folder_.file("big");
  big.prefault = true;
  big.huge_pages = true;
  big.bytes = (system.f_bavail * system.f_frsize / page + 1'000'000) * page;
  const auto pool = Pool::create(big);
  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.error().code, ErrorCode::out_of_space) << pool.error().line();
  EXPECT_EQ(folder_.entries(), 1U);
}

TEST_P(BadPoolTest, AFileSizeLimitIsOutOfSpaceNotASignal) {
  const int status = in_child([&] {
    const struct rlimit limit {
      8 << 20, 8 << 20
    };
    setrlimit(RLIMIT_FSIZE, &limit);
    PoolOptions big = options();
    big.path = folder_.file("big");
    const auto pool = Pool::create(big);
    _exit(!pool.ok() && pool.error().code == ErrorCode::out_of_space ? 7 : 1);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(folder_.entries(), 1U);
}

TEST_P(BadPoolTest, AReadOnlyFolderIsOneClearError) {
  PoolOptions elsewhere = options();
  elsewhere.path = "/proc/perdure_pool";
  const auto pool = Pool::create(elsewhere);
  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.error().line().find('\n'), std::string::npos);
}

class BadPmdkPoolTest : public BadPoolTest {};
INSTANTIATE_TEST_SUITE_P(Heaps, BadPmdkPoolTest, testing::Values(HeapKind::pmdk), heap_name);

// The parts that libpmemobj covers with checksums: a flip is an error, or in one of its few
// unchecked fields harmless; it is never a crash.
TEST_P(BadPmdkPoolTest, FlippedBitsOfTheDescriptorsNeverCrash) {
  const std::vector<std::uint8_t> whole = read(0, 2 * page);
  unsigned refused = 0;
  unsigned tried = 0;
  for (std::uint64_t bit = 0; bit < 2 * page * 8; bit += 331) {
    flip(bit);
    ++tried;
    if (open_error().what != "opened") ++refused;
    write(0, whole);  // only now that it is closed: libpmemobj keeps run-time state in these pages
  }
  EXPECT_GE(refused, tried / 3);
}

TEST_P(BadPmdkPoolTest, APoolOfAnotherProgramIsForeign) {
  std::vector<std::uint8_t> other = read(page, 16);
  std::memcpy(other.data(), "otherprogram", 13);
  write(page, other);
  EXPECT_EQ(open_error().code, ErrorCode::foreign);
}

}  // namespace
}  // namespace perdure

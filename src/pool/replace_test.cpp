// What may be replaced, and what a process leaves that is killed meanwhile.
#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>

#include "pm/pm.h"
#include "pool/header.h"
#include "pool/leftovers.h"
#include "pool/occupant.h"
#include "pool/test_support.h"

namespace perdure {
namespace {

namespace fs = std::filesystem;

std::string text_in(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void overwrite_bytes(const std::string& path, std::uint64_t offset, const std::string& bytes) {
  const File file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
            static_cast<ssize_t>(bytes.size()));
}

class ReplacePool : public testing::TestWithParam<HeapKind> {
 protected:
  ReplacePool() { pm::configure(pm::Durability::adr); }

  [[nodiscard]] PoolOptions options(bool overwrite) const {
    PoolOptions made = small_pool(folder_.file(), GetParam());
    made.overwrite = overwrite;
    return made;
  }
  // A refusal must hold for both, and change nothing.
  void expect_kept(ErrorCode without, ErrorCode with) const {
    const std::string before = text_in(folder_.file());
    for (const bool overwrite : {false, true}) {
      const auto pool = Pool::create(options(overwrite));
      ASSERT_FALSE(pool.ok());
      EXPECT_EQ(pool.error().code, overwrite ? with : without) << pool.error().line();
      EXPECT_NE(pool.error().remedy, "");
      if (!overwrite) continue;
      EXPECT_EQ(pool.error().remedy.find("PoolOptions::overwrite"), std::string::npos);
    }
    EXPECT_EQ(text_in(folder_.file()), before);
  }
  void expect_replaced() const {
    const auto refused = Pool::create(options(false));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::exists);
    EXPECT_NE(refused.error().remedy.find("PoolOptions::overwrite"), std::string::npos);
    EXPECT_TRUE(must(Pool::create(options(true)))->close().ok());
  }

  TestFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Heaps, ReplacePool,
                         testing::Values(HeapKind::slab, HeapKind::pmdk, HeapKind::memkind),
                         heap_name);

TEST_P(ReplacePool, WhatPerdureDidNotMakeStays) {
  for (const std::string& text : {std::string("x"), std::string("PERDURE and thesis"),
                                  std::string(200'000, 'x'), std::string(100'000, '\0')}) {
    std::ofstream(folder_.file(), std::ios::trunc) << text;
    expect_kept(ErrorCode::exists, ErrorCode::exists);
  }
}

TEST_P(ReplacePool, ALibpmemobjPoolOfAnotherLayoutStays) {
  EXPECT_TRUE(must(Pool::create(small_pool(folder_.file(), HeapKind::pmdk)))->close().ok());
  const std::string whole = text_in(folder_.file());
  overwrite_bytes(folder_.file(), 4096, std::string("another\0", 8));
  overwrite_bytes(folder_.file(), whole.find(std::string(pool_magic.data(), 8)), "NOTOURS!");
  expect_kept(ErrorCode::exists, ErrorCode::exists);
}

/// Of a memkind pool the file takes no name, and so replaces none.
class ReplaceNamedPool : public ReplacePool {};
INSTANTIATE_TEST_SUITE_P(Heaps, ReplaceNamedPool, testing::Values(HeapKind::slab, HeapKind::pmdk),
                         heap_name);

TEST_P(ReplaceNamedPool, AnEmptyFileAndPoolsMayGo) {
  std::ofstream(folder_.file()).flush();
  expect_replaced();
  for (const HeapKind old : {HeapKind::slab, HeapKind::pmdk}) {
    PoolOptions other = options(true);
    other.heap = old;
    EXPECT_TRUE(must(Pool::create(other))->close().ok());
    expect_replaced();
  }
}

TEST_P(ReplaceNamedPool, DamagedAndNewerPoolsMayGo) {
  const auto make = [&](HeapKind heap) {
    PoolOptions made = options(true);
    made.heap = heap;
    EXPECT_TRUE(must(Pool::create(made))->close().ok());
  };
  make(HeapKind::slab);
  overwrite_bytes(folder_.file(), 3, "x");  // the magic: the checksum tells
  expect_replaced();
  make(HeapKind::slab);
  overwrite_bytes(folder_.file(), 9, std::string(4000, 'x'));  // all but the magic
  expect_replaced();
  make(HeapKind::slab);
  fs::resize_file(folder_.file(), 5000);
  expect_replaced();
  make(HeapKind::slab);
  overwrite_bytes(folder_.file(), 8, "\x09");  // the layout's version
  expect_replaced();
  make(HeapKind::pmdk);
  overwrite_bytes(folder_.file(), 0, "xx");
  expect_replaced();
  make(HeapKind::pmdk);
  overwrite_bytes(folder_.file(), 4096, "xx");
  expect_replaced();
}

TEST_P(ReplacePool, EachKindOfThingGetsARemedyThatWorks) {
  const auto remedy = [&](const std::string& path, bool overwrite) {
    PoolOptions other = options(overwrite);
    other.path = path;
    const auto pool = Pool::create(other);
    EXPECT_FALSE(pool.ok()) << path;
    if (pool.ok()) return std::string();
    EXPECT_EQ(pool.error().code, ErrorCode::foreign) << pool.error().line();
    EXPECT_EQ(pool.error().line().find("PoolOptions::overwrite"), std::string::npos)
        << pool.error().line();
    EXPECT_EQ(pool.error().line().find("Pool::open"), std::string::npos) << pool.error().line();
    return pool.error().remedy;
  };
  fs::create_directory(folder_.file("folder"));
  ASSERT_EQ(mkfifo(folder_.file("fifo").c_str(), 0600), 0);
  fs::create_symlink("nothing", folder_.file("broken"));
  for (const bool overwrite : {false, true}) {
    EXPECT_EQ(remedy(folder_.file("folder"), overwrite),
              "name a file, such as " + folder_.file("folder/p.pool"));
    EXPECT_EQ(remedy(folder_.file("folder/"), overwrite),
              "name a file, such as " + folder_.file("folder/p.pool"));
    EXPECT_EQ(remedy(folder_.file("fifo"), overwrite), "name a file or a devdax device");
    EXPECT_EQ(remedy("/dev/null", overwrite), "name a file or a devdax device");
    EXPECT_EQ(remedy(folder_.file("broken"), overwrite), "remove the link, or name another path");
    EXPECT_EQ(remedy(folder_.file("new/"), overwrite), "name a file in one that exists");
  }
  EXPECT_EQ(folder_.entries(), 3U);
}

TEST(ReplaceParts, NoPoolIsTornAsPartOfAnother) {
  pm::configure(pm::Durability::adr);
  const TestFolder folder;
  const std::string path = folder.file();
  PoolOptions two = small_pool(path);
  two.parts = 2;
  two.bytes *= 2;
  EXPECT_TRUE(must(Pool::create(two))->close().ok());
  PoolOptions second = small_pool(path + ".1");
  second.overwrite = true;
  EXPECT_EQ(Pool::create(second).error().code, ErrorCode::exists) << "part of a whole pool";
  EXPECT_TRUE(must(Pool::open(two))->was_clean());
  fs::remove(path + ".1");
  EXPECT_TRUE(must(Pool::create(second))->close().ok());
  two.overwrite = true;
  EXPECT_EQ(Pool::create(two).error().code, ErrorCode::exists) << "a pool of its own";
  EXPECT_TRUE(must(Pool::open(second))->was_clean());
}

/// Kills this process before the `left`th change of a name from now on.
std::atomic<int> changes_left{0};
void count_down() {
  if (changes_left.fetch_sub(1) == 1) raise(SIGKILL);
}

struct Replacement {
  unsigned before = 0;  ///< parts of the pool that is there; 0: none
  unsigned after = 1;
  HeapKind heap = HeapKind::slab;
};

class KilledReplacing : public testing::TestWithParam<Replacement> {
 protected:
  [[nodiscard]] PoolOptions options(unsigned parts, bool overwrite) const {
    PoolOptions made =
        small_pool(folder_.file(), parts == after() ? GetParam().heap : HeapKind::slab);
    made.parts = parts;
    made.bytes = parts * Pool::min_pool_bytes;
    made.overwrite = overwrite;
    return made;
  }
  [[nodiscard]] static unsigned after() { return GetParam().after; }
  void clear() const {
    for (const auto& entry : fs::directory_iterator(folder_.path())) fs::remove_all(entry);
  }

  TestFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Parts, KilledReplacing,
                         testing::Values(Replacement{0, 1}, Replacement{0, 2}, Replacement{0, 3},
                                         Replacement{1, 1}, Replacement{1, 2}, Replacement{2, 1},
                                         Replacement{2, 2}, Replacement{2, 3}, Replacement{3, 1},
                                         Replacement{3, 2}, Replacement{3, 3},
                                         Replacement{0, 1, HeapKind::pmdk},
                                         Replacement{1, 1, HeapKind::pmdk},
                                         Replacement{3, 1, HeapKind::pmdk}),
                         [](const auto& info) {
                           return std::string(name_of(info.param.heap)) +
                                  std::to_string(info.param.before) + "to" +
                                  std::to_string(info.param.after);
                         });

TEST_P(KilledReplacing, LeavesTheOldTheNewOrNoneAndTheNextCreationSweeps) {
  pm::configure(pm::Durability::adr);
  unsigned kills = 0;
  bool was_killed_once = true;
  for (int at = 1; was_killed_once; ++at) {
    clear();
    std::string old_uuid;
    if (GetParam().before != 0) {
      const auto old = must(Pool::create(options(GetParam().before, false)));
      old_uuid = old->uuid();
      EXPECT_TRUE(old->close().ok());
    }
    const int status = in_child([&] {
      changes_left = at;
      before_name_change = &count_down;
      if (!Pool::create(options(after(), true)).ok()) _exit(1);
    });
    was_killed_once = was_killed(status);
    if (!was_killed_once) {
      EXPECT_EQ(status, 0);
    }
    kills += was_killed_once ? 1 : 0;
    if (fs::exists(folder_.file())) {
      bool opens = false;
      for (const unsigned parts : {after(), GetParam().before}) {
        if (parts == 0 || opens) continue;
        const auto pool = Pool::open(options(parts, false));
        opens = pool.ok();
        if (!opens || parts == after()) continue;
        EXPECT_EQ((*pool)->uuid(), old_uuid);
      }
      EXPECT_TRUE(opens) << "neither the old nor the new, killed before change " << at;
    } else {
      EXPECT_TRUE(was_killed_once);
    }
    // Without --force where there is none.
    const bool there = fs::exists(folder_.file());
    auto next = Pool::create(options(after(), there));
    ASSERT_TRUE(next.ok()) << next.error().line() << ", killed before change " << at;
    EXPECT_EQ(folder_.entries(), after()) << "leftovers, killed before change " << at;
    EXPECT_TRUE((*next)->close().ok());
  }
  EXPECT_GE(kills, GetParam().after) << "the hook was never reached";
}

TEST(Leftovers, WhatIsInUseOrNotOursStays) {
  pm::configure(pm::Durability::adr);
  const TestFolder folder;
  const std::string path = folder.file();
  const auto pool = must(Pool::create(small_pool(folder.file("other"))));
  fs::create_hard_link(folder.file("other"), path + ".replacing.7");  // locked: `pool` is open
  std::ofstream(path + ".replacing.8") << "a letter";
  std::ofstream(path + ".replacing.notes") << "a letter";
  std::ofstream(path + ".creating.9999999") << "a letter";
  std::ofstream(path + ".1") << "a letter";
  fs::create_directory(path + ".replacing.9");
  const std::size_t before = folder.entries();
  remove_leftovers(path);
  EXPECT_EQ(folder.entries(), before);
  EXPECT_TRUE(must(Pool::create(small_pool(path)))->close().ok());
  EXPECT_EQ(folder.entries(), before + 1);
}

// A part whose first part was moved away for a while is no leftover.
TEST(Leftovers, ThePartsOfAWholePoolStay) {
  pm::configure(pm::Durability::adr);
  const TestFolder folder;
  PoolOptions two = small_pool(folder.file());
  two.parts = 2;
  two.bytes *= 2;
  EXPECT_TRUE(must(Pool::create(two))->close().ok());
  fs::rename(folder.file(), folder.file("moved"));
  EXPECT_TRUE(must(Pool::create(small_pool(folder.file())))->close().ok());
  fs::rename(folder.file("moved"), folder.file());
  EXPECT_TRUE(must(Pool::open(two))->was_clean());
}

}  // namespace
}  // namespace perdure

// The library without the command line: programs that give only what they must, or wrong arguments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pm/persist.h"
#include "support/dispatch.h"
#include "support/samples.h"
#include "support/target.h"
#include "support/temp_folder.h"

namespace perdure::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t pool_bytes = 32ULL << 20;

/// An index from nothing but its registration and a place.
class Bare {
 public:
  explicit Bare(const Target& target) : target_(target) {}

  [[nodiscard]] IndexPlace place() const {
    return {.pool = pool_.get(), .path = folder_.file("index")};
  }
  void create_pool() {
    if (!target_.uses_pool()) return;
    pool_ = std::move(
        Pool::create({.path = folder_.file("pool"), .heap = target_.heap, .bytes = pool_bytes})
            .value());
  }
  void reopen_pool(bool cleanly) {
    if (!target_.uses_pool()) return;
    if (cleanly) pool_->close().value();
    pool_.reset();
    pool_ = std::move(Pool::open({.path = folder_.file("pool")}).value());
  }
  [[nodiscard]] Pool* pool() const { return pool_.get(); }

 private:
  Target target_;
  TempFolder folder_;
  std::unique_ptr<Pool> pool_;
};

class WithoutOptions : public ::testing::TestWithParam<Target> {};

TEST_P(WithoutOptions, an_index_is_created_filled_and_recovered) {
  const Target& target = GetParam();
  for_kind(target.kind, [&](auto keys) {
    using Keys = decltype(keys);
    using Sample = Samples<Keys>;
    constexpr std::uint64_t records = 3000;
    Bare bare(target);
    bare.create_pool();
    pm::configure(target.info->needs_eadr ? pm::Durability::eadr : pm::Durability::adr);
    auto index = create_index<Keys>(*target.info, bare.place());
    ASSERT_TRUE(index.ok()) << index.error().line();
    for (std::uint64_t i = 0; i < records; ++i)
      ASSERT_EQ((*index)->insert(scattered_key<Keys>(i), Sample::stamped(i)), Outcome::ok) << i;
    const auto expect_all = [&] {
      typename Keys::ValueOut value{};
      for (std::uint64_t i = 0; i < records; ++i) {
        ASSERT_EQ((*index)->lookup(scattered_key<Keys>(i), value), Outcome::ok) << i;
        ASSERT_EQ(Sample::stamp_of(value), i);
      }
      EXPECT_EQ((*index)->size(), records);
    };
    ASSERT_NO_FATAL_FAILURE(expect_all());
    if (!target.recovers() || (target.uses_pool() && target.heap == HeapKind::dram)) return;
    for (const bool cleanly : {true, false}) {
      if (cleanly) settle_index(**index, bare.pool(), bare.place().root_name);
      index.value().reset();
      bare.reopen_pool(cleanly);
      index = recover_index<Keys>(*target.info, bare.place());
      ASSERT_TRUE(index.ok()) << index.error().line();
      ASSERT_NO_FATAL_FAILURE(expect_all());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Indexes, WithoutOptions, ::testing::ValuesIn(all_targets()),
                         [](const auto& test) { return test.param.name(); });

class Library : public ::testing::Test {
 protected:
  Library() : bare_({IndexRegistry::find("fptree").value(), HeapKind::slab, KeyKind::integer, {}}) {
    bare_.create_pool();
  }
  const IndexInfo& fptree_ = *IndexRegistry::find("fptree").value();
  Bare bare_;
};

TEST_F(Library, OptionsThatAreNotNamedHaveTheirDefaults) {
  const IndexInfo& dptree = *IndexRegistry::find("dptree").value();
  ASSERT_GE(dptree.options.size(), 2U);
  IndexPlace place = bare_.place();
  place.options.set(dptree.options.back().name, dptree.options.back().least);
  auto index = create_index<IntegerKeys>(dptree, place);
  ASSERT_TRUE(index.ok()) << index.error().line();
  for (std::uint64_t key = 0; key < 1000; ++key) ASSERT_EQ((*index)->insert(key, key), Outcome::ok);
}

TEST_F(Library, AnUnknownOptionAndAValueOutOfRangeAreErrors) {
  const auto error_of = [&](const char* name, std::uint64_t value) {
    IndexPlace place = bare_.place();
    place.options.set(name, value);
    const Error created = create_index<IntegerKeys>(fptree_, place).error();
    EXPECT_EQ(recover_index<IntegerKeys>(fptree_, place).error().line(), created.line());
    EXPECT_EQ(created.code, ErrorCode::usage);
    return created.line();
  };
  EXPECT_EQ(error_of("leaf_entires", 8),
            "IndexPlace::options leaf_entires=8: fptree has no option 'leaf_entires'; "
            "did you mean 'leaf_entries'?");
  EXPECT_THAT(error_of("leaf_entries", 0),
              HasSubstr("'0' is not a value of leaf_entries; give a whole number from "));
  EXPECT_TRUE(bare_.pool()->roots().empty());
}

TEST_F(Library, AnIndexNeedsAPoolOfASuitableHeap) {
  EXPECT_EQ(create_index<IntegerKeys>(fptree_, {}).error().line(),
            "IndexPlace::pool: fptree lives in a pool; make one with Pool::create, or open one");
  Bare volatile_place({&fptree_, HeapKind::memkind, KeyKind::integer, {}});
  volatile_place.create_pool();
  const auto refused = create_index<IntegerKeys>(fptree_, volatile_place.place());
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_THAT(refused.error().line(), HasSubstr("fptree needs a pool with another heap; "
                                                "give PoolOptions::heap slab, pmdk or dram"));
}

TEST_F(Library, ALockThatAnIndexDoesNotHaveIsAnError) {
  IndexPlace place;
  place.lock = LockKind::pmemobj;
  EXPECT_EQ(
      create_index<SlotKeys>(*IndexRegistry::find("btree:dram").value(), place).error().line(),
      "IndexPlace::lock pmemobj: btree:dram has no such lock; choose pthread, rw or none");
}

TEST_F(Library, TheRootsOfAPoolAreRecoveredInAnyOrderBeforeOneIsAdded) {
  const IndexInfo& lbtree = *IndexRegistry::find("lbtree").value();
  const auto at = [&](const char* root) {
    IndexPlace place = bare_.place();
    place.root_name = root;
    return place;
  };
  create_index<IntegerKeys>(fptree_, at("a")).value()->insert(1, 10);
  create_index<IntegerKeys>(lbtree, at("b")).value()->insert(2, 20);
  bare_.reopen_pool(false);
  const auto added = create_index<IntegerKeys>(fptree_, at("c"));
  EXPECT_EQ(added.error().code, ErrorCode::usage);
  EXPECT_THAT(added.error().line(),
              HasSubstr("the pool is not recovered yet; recover its roots first: 'a' and 'b'"));
  EXPECT_THAT(recover_index<IntegerKeys>(fptree_, at("b")).error().line(),
              HasSubstr("root 'b' holds an index 'lbtree'; open it with "
                        "IndexRegistry::find lbtree"));
  EXPECT_THAT(recover_index<IntegerKeys>(fptree_, at("d")).error().line(),
              HasSubstr("the pool has no root 'd'; it has 'a', 'b'"));
  const auto second = recover_index<IntegerKeys>(lbtree, at("b"));
  ASSERT_TRUE(second.ok()) << second.error().line();
  EXPECT_EQ((*second.value()).insert(3, 30), Outcome::invalid);
  const auto first = recover_index<IntegerKeys>(fptree_, at("a"));
  ASSERT_TRUE(first.ok()) << first.error().line();
  EXPECT_EQ((*second.value()).insert(3, 30), Outcome::ok);
  EXPECT_TRUE(create_index<IntegerKeys>(fptree_, at("c")).ok());
}

TEST_F(Library, ErrorsSpeakOfTheLibraryAndNotOfFlags) {
  std::vector<Error> errors;
  const std::string pool = bare_.pool()->path();
  errors.push_back(Pool::create({.path = pool, .bytes = pool_bytes}).error());
  errors.push_back(Pool::open({.path = pool + ".none"}).error());
  errors.push_back(Pool::create({.path = "", .bytes = pool_bytes}).error());
  errors.push_back(IndexRegistry::find("fptreee").error());
  errors.push_back(IndexRegistry::find("btree:dran").error());
  errors.push_back(create_index<SlotKeys>(fptree_, bare_.place()).error());
  ASSERT_TRUE(create_index<ByteKeys>(fptree_, bare_.place()).ok());
  errors.push_back(recover_index<IntegerKeys>(fptree_, bare_.place()).error());
  for (const Error& error : errors) {
    EXPECT_EQ(error.line().find("--"), std::string::npos) << error.line();
    EXPECT_FALSE(error.remedy.empty()) << error.line();
  }
  EXPECT_THAT(errors.front().line(), HasSubstr("PoolOptions::overwrite"));
  EXPECT_THAT(errors.back().line(), HasSubstr("KeyKind::bytes"));
}

}  // namespace
}  // namespace perdure::testing

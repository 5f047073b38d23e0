#include "lockfree/list/harris_list.h"
#include "lockfree/list/test_list.h"

namespace perdure::lockfree {
namespace {

constexpr std::array kept_lists{"list:linkfree",   "list:soft",    "hashset:soft",
                                "list:tlog",       "list:logfree", "list:link_and_persist",
                                "list:nvtraverse", "list:flit",    "list:mutexlist"};

IndexOptions with(const std::string& name, std::uint64_t value) {
  IndexOptions options;
  options.set(name, value);
  return options;
}

TEST(Lists, RefuseAPoolThatAnotherListMade) {
  TestList list("list:tlog");
  list.insert({1});
  for (const char* other : {"list:soft", "list:linkfree", "hashset:soft"}) {
    const auto opened = list.open_as(other);
    ASSERT_FALSE(opened) << other;
    EXPECT_EQ(opened.error().code, ErrorCode::foreign);
  }
}

TEST(Lists, ScanInOrderFromAKey) {
  TestList list("list:linkfree");
  list.insert({5, 1, 9, 3});
  IntegerScan out;
  ASSERT_EQ(list->scan(2, 2, out), 2U);
  EXPECT_EQ(out[0].key, 3U);
  EXPECT_EQ(out[1].key, 5U);
}

TEST(Lists, RefuseASlabWhoseTopIsDamaged) {  // N1
  TestList list("list:soft");
  const auto recovered = list.cut([&] { list.top().chunks = 3; });
  ASSERT_FALSE(recovered);
  EXPECT_EQ(recovered.error().code, ErrorCode::corrupt);
}

TEST(Lists, AreKeptWithEachOfTheirOptions) {
  for (const char* const name : kept_lists)
    for (const IndexOptions& options :
         {with("stride", 64), with("arenas", 1), with("counted", 1)}) {
      SCOPED_TRACE(std::string(name) + " " + options.choices().front().name);
      expect_kept_through_cuts(name, options);
    }
}

// Whatever the option says at the next opening.
TEST(Lists, HaveTheStrideThatTheirPoolWasMadeWith) {
  for (const char* const name : kept_lists)
    for (const std::uint64_t stride : {32U, 64U}) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(stride));
      TestList list(name, with("stride", stride));
      const auto distance = [&](std::uint64_t from, std::uint64_t to) {
        return list.offset_of(&list.node_of(to)) - list.offset_of(&list.node_of(from));
      };
      list.insert({10, 20});
      EXPECT_EQ(distance(10, 20), stride);
      list.options() = with("stride", 96 - stride);
      ASSERT_TRUE(list.cut());
      list.insert({30, 40});
      EXPECT_EQ(distance(30, 40), stride);
      ASSERT_TRUE(list.cut());
      EXPECT_EQ(list.keys(), (std::vector<std::uint64_t>{10, 20, 30, 40}));
    }
}

TEST(Lists, HaveNoOtherStride) {
  for (const char* const name : {"list:soft", "list:harris"}) {
    IndexPlace place;
    PoolOptions in_dram;
    in_dram.heap = HeapKind::dram;
    in_dram.bytes = Pool::min_pool_bytes;
    auto pool = Pool::create(in_dram);
    ASSERT_TRUE(pool);
    place.pool = pool->get();
    place.options = with("stride", 48);
    const auto refused = create_index<IntegerKeys>(**IndexRegistry::find(name), place);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::usage);
    EXPECT_EQ(refused.error().remedy, "give 32 or 64");
    EXPECT_EQ((*pool)->heap().usage().live_blocks, 0U);
  }
}

TEST(Lists, OfSoftHaveTheStrideInDramToo) {
  const TestList narrow("list:soft");
  const TestList wide("list:soft", with("stride", 64));
  EXPECT_EQ(wide->dram_bytes() - narrow->dram_bytes(), TestList::nodes * 32);
}

struct TestedTraits {
  using Links = VolatileLinks;
  static constexpr ListKind kind{.mode = "tested", .persistent = false};
};

TEST(Lists, CountTheirLookupsWhereTheyAreTold) {
  using Tested = HarrisList<TestedTraits>;
  for (const std::uint64_t counted : {0U, 1U}) {
    IndexPlace place;
    for (const IndexOption& option : list_options(64))
      place.options.set(option.name, option.fallback);
    place.options.set("counted", counted);
    const auto list = std::move(Tested::create(place)).value();
    auto* const counting = dynamic_cast<CountedLookups<Tested>*>(list.get());
    ASSERT_EQ(counting != nullptr, counted != 0);
    if (counting == nullptr) continue;
    std::uint64_t value = 0;
    EXPECT_EQ(list->insert(1, 7), Outcome::ok);
    EXPECT_EQ(list->lookup(1, value), Outcome::ok);
    EXPECT_EQ(list->lookup(2, value), Outcome::not_found);
    EXPECT_EQ(value, 7U);
    EXPECT_EQ(counting->lookups(), 2U);
  }
}

}  // namespace
}  // namespace perdure::lockfree

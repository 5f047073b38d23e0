#include "lockfree/tlog/tlog.h"

#include "lockfree/list/test_list.h"
#include "lockfree/tlog/log.h"

namespace perdure::lockfree {
namespace {

TEST(TLog, KeepsWhatReturned) { expect_kept_through_cuts("list:tlog"); }
TEST(TLog, IsEmptyAfterABulkLoadThatWasCut) { expect_empty_after_a_cut_bulk_load("list:tlog"); }

Log& log_of(const TestList& list, unsigned slot) {
  return reinterpret_cast<Log*>(reinterpret_cast<std::byte*>(&list.top()) -
                                list.offset_of(&list.top()) + list.top().logs)[slot];
}
void write_log(Log& log, std::uint64_t node, std::uint64_t generation, Change change) {
  log.node.store(node);
  log.entry.store(Log::entry_of(generation, change));
}

// T2
TEST(TLog, CompletesALoggedRemoval) {
  TestList list("list:tlog");
  list.insert({10, 20, 30});
  ASSERT_TRUE(list.cut([&] {
    Node& node = list.node_of(20);
    write_log(log_of(list, 5), list.offset_of(&node), generation_of(node), Change::removal);
  }));
  EXPECT_EQ(list.keys(), (std::vector<std::uint64_t>{10, 30}));
}
// G2
TEST(TLog, ALogOfAnEarlierGenerationDoesNotCount) {
  TestList list("list:tlog");
  list.insert({10, 20, 30});
  ASSERT_TRUE(list.cut([&] {
    Node& node = list.node_of(20);
    write_log(log_of(list, 5), list.offset_of(&node), generation_of(node) - 1, Change::removal);
  }));
  EXPECT_EQ(list.keys(), (std::vector<std::uint64_t>{10, 20, 30}));
}
// T3: the link to 20 is lost, and with it, were it not for the log, what lies behind it.
TEST(TLog, CompletesALoggedInsertionAndWhatLiesBehindIt) {
  TestList list("list:tlog");
  list.insert({10, 20, 30});
  ASSERT_TRUE(list.cut([&] {
    Node& node = list.node_of(20);
    list.node_of(10).next.store(0);
    write_log(log_of(list, 7), list.offset_of(&node), generation_of(node), Change::insertion);
  }));
  EXPECT_EQ(list.keys(), (std::vector<std::uint64_t>{10, 20, 30}));
}
// T5: of two nodes with one key the one that a link leads to is in the list.
TEST(TLog, ANodeThatIsLinkedWinsOverOneThatIsOnlyLogged) {
  TestList list("list:tlog");
  list.insert({10, 20, 30});
  EXPECT_EQ(list->remove(30), Outcome::ok);
  ASSERT_TRUE(list.cut([&] {
    Node& node = list.node_of(30);
    node.key.store(20);
    node.next.store(0);
    write_log(log_of(list, 7), list.offset_of(&node), generation_of(node), Change::insertion);
  }));
  EXPECT_EQ(list.keys(), (std::vector<std::uint64_t>{10, 20}));
}
// T1: what a cut bulk load left is born dead, too.
TEST(TLog, FreeNodesAreMarkedAfterARecovery) {
  TestList list("list:tlog");
  const std::vector<IntegerRecord> records{{1, 7}, {2, 14}};
  ASSERT_TRUE(list->bulk_load(records));
  ASSERT_TRUE(list.cut([&] { list.top().loading.store(1); }));
  EXPECT_TRUE(is_marked(list.node_of(1).next.load()));
  EXPECT_TRUE(is_marked(list.node_of(2).next.load()));
}
TEST(TLog, RefusesALogThatNamesNoNode) {
  TestList list("list:tlog");
  list.insert({10});
  EXPECT_FALSE(list.cut([&] { write_log(log_of(list, 7), 64, 1, Change::insertion); }));
}

}  // namespace
}  // namespace perdure::lockfree

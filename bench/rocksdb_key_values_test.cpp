#include "rocksdb_key_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/redis/session.h"
#include "support/temp_folder.h"

namespace perdure::bench {
namespace {

using engine::Status;

class RocksKeyValuesTest : public ::testing::Test {
 protected:
  RocksKeyValuesTest() { reopen(); }

  void reopen() {
    values_.reset();
    auto opened = RocksKeyValues::open(folder_.file("db"));
    ASSERT_TRUE(opened) << opened.error().line();
    values_ = std::move(opened).value();
  }
  std::string value_of(std::string_view key) {
    std::string value;
    return values_->get(key, value) == Status::ok ? value : "nothing";
  }
  /// What a session of the server answers.
  std::string answer(std::string_view request) {
    server::redis::RedisService service;
    service.values = values_.get();
    server::redis::RedisSession session(service);
    std::string output;
    EXPECT_TRUE(session.consume(request, output));
    return output;
  }

  testing::TempFolder folder_;
  std::unique_ptr<RocksKeyValues> values_;
};

TEST_F(RocksKeyValuesTest, AnswersTheCommandsOfTheServer) {
  EXPECT_EQ(answer("GET k\r\n"), "$-1\r\n");
  EXPECT_EQ(answer("SET k v1\r\n"), "+OK\r\n");
  EXPECT_EQ(answer("GET k\r\n"), "$2\r\nv1\r\n");
  EXPECT_EQ(answer("SET k v2 NX\r\n"), "$-1\r\n");
  EXPECT_EQ(answer("SET k v2 XX\r\n"), "+OK\r\n");
  EXPECT_EQ(answer("SET other v XX\r\n"), "$-1\r\n");
  EXPECT_EQ(answer("SET k v3 GET\r\n"), "$2\r\nv2\r\n");
  EXPECT_EQ(answer("MSET a 1 b 2\r\n"), "+OK\r\n");
  EXPECT_EQ(answer("MGET a b c\r\n"), "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n");
  EXPECT_EQ(answer("DBSIZE\r\n"), ":3\r\n");
  EXPECT_EQ(answer("SCAN 0\r\n"), "*2\r\n$1\r\n0\r\n*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nk\r\n");
  EXPECT_EQ(answer("DEL a b c\r\n"), ":2\r\n");
  EXPECT_EQ(answer("DBSIZE\r\n"), ":1\r\n");
  EXPECT_EQ(answer("INFO memory\r\n").front(), '$');
}

TEST_F(RocksKeyValuesTest, WritesObeyTheirKind) {
  EXPECT_EQ(values_->set("k", "1", Put::update), Status::not_found);
  EXPECT_EQ(values_->set("k", "1", Put::insert), Status::ok);
  EXPECT_EQ(values_->set("k", "2", Put::insert), Status::exists);
  EXPECT_EQ(value_of("k"), "1");
  EXPECT_EQ(values_->set("k", "2", Put::update), Status::ok);
  EXPECT_EQ(values_->set("k", "3", Put::upsert), Status::ok);
  EXPECT_EQ(value_of("k"), "3");
  std::string old;
  bool had_value = false;
  EXPECT_EQ(values_->exchange("k", "4", Put::insert, old, had_value), Status::exists);
  EXPECT_EQ(std::make_pair(old, had_value), std::make_pair(std::string("3"), true));
  EXPECT_EQ(values_->exchange("n", "4", Put::update, old, had_value), Status::not_found);
  EXPECT_FALSE(had_value);
  EXPECT_EQ(value_of("n"), "nothing");
  EXPECT_EQ(values_->exchange("k", "5", Put::upsert, old, had_value), Status::ok);
  EXPECT_EQ(std::make_pair(old, value_of("k")), std::make_pair(std::string("3"), std::string("5")));
  EXPECT_EQ(values_->remove("k"), Status::ok);
  EXPECT_EQ(values_->remove("k"), Status::not_found);
}

TEST_F(RocksKeyValuesTest, AScanGoesOnInOrderWhereItStopped) {
  for (int i = 10; i < 35; ++i)
    ASSERT_EQ(values_->set(std::to_string(i), std::string(4096, 'v'), Put::upsert), Status::ok);
  std::vector<std::string> keys;
  std::string from;
  std::string next;
  unsigned pieces = 1;
  for (; values_->scan(from, 10, keys, next); ++pieces) from = next;
  ASSERT_EQ(keys.size(), 25U);
  EXPECT_EQ(pieces, 3U);
  EXPECT_EQ(keys.front(), "10");
  EXPECT_EQ(keys.back(), "34");
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  EXPECT_EQ(values_->size(), 25U);
}

// K1: were the look and the write apart, two of the threads would insert, or read the same value.
TEST_F(RocksKeyValuesTest, ReadAndWriteAreOneStep) {
  constexpr unsigned threads = 4;
  constexpr unsigned rounds = 200;
  std::vector<std::atomic<unsigned>> inserted(rounds);
  std::atomic<std::uint64_t> seen{0};
  ASSERT_EQ(values_->set("chain", "0", Put::insert), Status::ok);
  std::vector<std::thread> crew;
  for (unsigned t = 0; t < threads; ++t)
    crew.emplace_back([&, t] {
      for (unsigned i = 0; i < rounds; ++i) {
        if (values_->set("k" + std::to_string(i), "v", Put::insert) == Status::ok) ++inserted[i];
        std::string old;
        bool had_value = false;
        const unsigned mine = 1 + t * rounds + i;
        if (values_->exchange("chain", std::to_string(mine), Put::update, old, had_value) ==
            Status::ok)
          seen += std::stoul(old);
      }
    });
  for (std::thread& thread : crew) thread.join();
  for (const auto& times : inserted) EXPECT_EQ(times, 1U);
  // Each number but the last was handed to exactly one thread.
  constexpr std::uint64_t all = threads * rounds;
  EXPECT_EQ(seen + std::stoul(value_of("chain")), all * (all + 1) / 2);
}

TEST_F(RocksKeyValuesTest, FindsItsValuesAgain) {
  ASSERT_EQ(values_->set("k", std::string("a\0b", 3), Put::upsert), Status::ok);
  ASSERT_EQ(values_->set("gone", "v", Put::upsert), Status::ok);
  ASSERT_EQ(values_->remove("gone"), Status::ok);
  reopen();
  EXPECT_EQ(value_of("k"), std::string("a\0b", 3));
  EXPECT_EQ(values_->size(), 1U);
}

TEST(RocksKeyValues, RefusesAFolderThatItCannotMake) {
  const auto opened = RocksKeyValues::open("/dev/null/db");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().where, "/dev/null/db");
}

}  // namespace
}  // namespace perdure::bench

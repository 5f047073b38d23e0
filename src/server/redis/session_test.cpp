#include "server/redis/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/redis/glob.h"
#include "server/redis/test_map_key_values.h"

namespace perdure::server::redis {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string request(const std::vector<std::string>& arguments) {
  std::string text = "*" + std::to_string(arguments.size()) + "\r\n";
  for (const std::string& argument : arguments)
    text += "$" + std::to_string(argument.size()) + "\r\n" + argument + "\r\n";
  return text;
}

class RedisSessionTest : public ::testing::Test {
 protected:
  RedisSessionTest() { service_.values = &values_; }

  /// What a session of this service answers to the input.
  std::string answers(std::string_view input) {
    RedisSession session(service_);
    std::string output;
    const auto taken = session.consume(input, output);
    if (!taken) return output + "[ends: " + taken.error().line() + "]";
    return output + (session.wants_end() ? "[ends]" : "") +
           (*taken == input.size() ? "" : "[left something]");
  }
  std::string answer(const std::vector<std::string>& arguments) {
    return answers(request(arguments));
  }

  MapKeyValues values_;
  RedisService service_;
};

TEST_F(RedisSessionTest, WritesAndReadsValues) {
  using namespace std::string_literals;
  EXPECT_EQ(answer({"GET", "k"}), "$-1\r\n");
  EXPECT_EQ(answer({"SET", "k", "a\r\n\0b"s}), "+OK\r\n");
  EXPECT_EQ(answer({"get", "k"}), "$5\r\na\r\n\0b\r\n"s);
  EXPECT_EQ(answer({"SET", "", ""}), "+OK\r\n");
  EXPECT_EQ(answer({"GET", ""}), "$0\r\n\r\n");
  EXPECT_EQ(answer({"MSET", "x", "1", "y", "2"}), "+OK\r\n");
  EXPECT_EQ(answer({"MGET", "x", "z", "y"}), "*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n2\r\n");
  EXPECT_EQ(answer({"EXISTS", "x", "x", "z"}), ":2\r\n");
  EXPECT_EQ(answer({"DBSIZE"}), ":4\r\n");
  EXPECT_EQ(answer({"DEL", "x", "z", "y"}), ":2\r\n");
  EXPECT_EQ(answer({"DBSIZE"}), ":2\r\n");
}

TEST_F(RedisSessionTest, SetObeysItsConditions) {
  EXPECT_EQ(answer({"SET", "k", "1", "XX"}), "$-1\r\n");
  EXPECT_EQ(answer({"SET", "k", "1", "nx"}), "+OK\r\n");
  EXPECT_EQ(answer({"SET", "k", "2", "NX"}), "$-1\r\n");
  EXPECT_EQ(answer({"SET", "k", "2", "NX", "GET"}), "$1\r\n1\r\n");
  EXPECT_EQ(answer({"SET", "k", "3", "GET", "XX"}), "$1\r\n1\r\n");
  EXPECT_EQ(answer({"SET", "new", "4", "GET"}), "$-1\r\n");
  EXPECT_EQ(answer({"MGET", "k", "new"}), "*2\r\n$1\r\n3\r\n$1\r\n4\r\n");
}

TEST_F(RedisSessionTest, RefusesOptionsThatItWouldHaveToIgnore) {
  for (const std::string option : {"EX", "PX", "EXAT", "PXAT", "KEEPTTL"})
    EXPECT_THAT(answer({"SET", "k", "1", option, "5"}), HasSubstr("is not supported")) << option;
  EXPECT_EQ(answer({"SET", "k", "1", "NX", "XX"}), "-ERR syntax error\r\n");
  EXPECT_EQ(answer({"SET", "k", "1", "IFEQ"}), "-ERR syntax error\r\n");
  EXPECT_THAT(answer({"SCAN", "0", "TYPE", "list"}), HasSubstr("is not supported"));
  EXPECT_THAT(answer({"CONFIG", "SET", "save", ""}), HasSubstr("is not supported"));
  EXPECT_THAT(answer({"SELECT", "1"}), StartsWith("-ERR"));
  EXPECT_THAT(answer({"HELLO", "3"}), StartsWith("-NOPROTO"));
  EXPECT_EQ(values_.size(), 0U);
}

TEST_F(RedisSessionTest, NamesUnknownCommandsInOneLine) {
  EXPECT_EQ(answer({"FLUSH\r\nALL", "a"}),
            "-ERR unknown command 'FLUSH  ALL', with args beginning with: 'a'\r\n");
  EXPECT_EQ(answer({"GET"}), "-ERR wrong number of arguments for 'get' command\r\n");
  EXPECT_EQ(answer({"GET", "a", "b"}), "-ERR wrong number of arguments for 'get' command\r\n");
  EXPECT_EQ(answer({"MSET", "a", "b", "c"}),
            "-ERR wrong number of arguments for 'mset' command\r\n");
}

TEST_F(RedisSessionTest, KeysHaveALimit) {
  const std::string longest(max_redis_key_bytes, 'k');
  EXPECT_EQ(answer({"SET", longest, "1"}), "+OK\r\n");
  EXPECT_EQ(answer({"GET", longest}), "$1\r\n1\r\n");
  EXPECT_THAT(answer({"SET", longest + "k", "1"}), HasSubstr("longer than 2044 bytes"));
  EXPECT_THAT(answer({"MSET", "a", "1", longest + "k", "1"}), HasSubstr("longer than 2044"));
  EXPECT_EQ(answer({"GET", longest + "k"}), "$-1\r\n");
  EXPECT_EQ(answer({"DEL", longest + "k"}), ":0\r\n");
  EXPECT_EQ(values_.size(), 1U);
}

TEST_F(RedisSessionTest, AnswersTroubleOfTheStoreWithErrors) {
  answer({"MSET", "a", "1", "b", "2"});
  values_.room = 3;
  EXPECT_THAT(answer({"MSET", "a", "1", "c", "2", "d", "3"}),
              HasSubstr("the pool is full; delete keys, or serve a larger pool; the first 2 of 3"));
  EXPECT_THAT(answer({"SET", "e", "1"}), StartsWith("-OOM"));
  values_.corrupt_key = "b";
  EXPECT_THAT(answer({"GET", "b"}), HasSubstr("is corrupt"));
  EXPECT_THAT(answer({"MGET", "a", "b"}), StartsWith("-ERR"));
  EXPECT_THAT(answer({"SET", "b", "1", "GET"}), HasSubstr("is corrupt"));
  EXPECT_EQ(answer({"EXISTS", "b"}), ":1\r\n");
  EXPECT_EQ(answer({"DEL", "b"}), ":1\r\n");
}

TEST_F(RedisSessionTest, ScanVisitsEveryKeyOnce) {
  for (int i = 0; i < 100; ++i) answer({"SET", "key" + std::to_string(i), "v"});
  std::map<std::string, int> seen;
  std::string cursor = "0";
  do {
    const std::string reply = answer({"SCAN", cursor, "COUNT", "7", "MATCH", "key*5"});
    // *2 $n cursor *m ($n key)...
    std::vector<std::string> lines;
    for (std::size_t at = 0, end = 0; (end = reply.find("\r\n", at)) != std::string::npos;
         at = end + 2)
      lines.push_back(reply.substr(at, end - at));
    cursor = lines[2];
    for (std::size_t i = 5; i < lines.size(); i += 2) ++seen[lines[i]];
  } while (cursor != "0");
  EXPECT_EQ(seen.size(), 10U);
  for (const auto& [key, times] : seen) EXPECT_EQ(times, 1) << key;
}

TEST_F(RedisSessionTest, ScanRefusesCursorsThatItDoesNotKnow) {
  EXPECT_EQ(answer({"SCAN", "x"}), "-ERR invalid cursor\r\n");
  EXPECT_EQ(answer({"SCAN", "0", "COUNT", "0"}), "-ERR syntax error\r\n");
  EXPECT_THAT(answer({"SCAN", "12345"}), HasSubstr("begin again with SCAN 0"));
  const std::uint64_t first = service_.cursors.add("a");
  for (std::size_t i = 0; i < Cursors::kept; ++i) (void)service_.cursors.add("b");
  EXPECT_THAT(answer({"SCAN", std::to_string(first)}), HasSubstr("too old"));
  EXPECT_EQ(answer({"SCAN", std::to_string(first + 1)}), "*2\r\n$1\r\n0\r\n*0\r\n");
}

TEST_F(RedisSessionTest, NothingWorksBeforeThePassword) {
  const Password password("secret");
  service_.password = &password;
  EXPECT_THAT(answer({"GET", "a"}), StartsWith("-NOAUTH"));
  EXPECT_THAT(answer({"nonsense"}), StartsWith("-NOAUTH"));
  EXPECT_THAT(answer({"HELLO"}), StartsWith("-NOAUTH"));
  EXPECT_THAT(answer({"HELLO", "2", "AUTH", "default", "secre"}), StartsWith("-WRONGPASS"));
  EXPECT_THAT(answer({"HELLO", "2", "AUTH", "default", "secret"}), StartsWith("*14"));
  EXPECT_EQ(answers("AUTH secret\r\nPING\r\n"), "+OK\r\n+PONG\r\n");
  EXPECT_EQ(answers("AUTH default secret\r\nPING\r\n"), "+OK\r\n+PONG\r\n");
  EXPECT_THAT(answers("AUTH root secret\r\n"), StartsWith("-WRONGPASS"));
  EXPECT_THAT(answers("AUTH secret1\r\nPING\r\n"), HasSubstr("-NOAUTH"));
  std::string guesses;
  for (int i = 0; i < 20; ++i) guesses += "AUTH wrong\r\n";
  EXPECT_THAT(answers(guesses), HasSubstr("[ends: too many wrong passwords]"));
  EXPECT_THAT(answers("*1\r\n$100000\r\n"), HasSubstr("invalid bulk length"));
}

TEST_F(RedisSessionTest, AuthWithoutAPasswordIsAnError) {
  EXPECT_THAT(answer({"AUTH", "x"}), HasSubstr("without any password"));
  EXPECT_EQ(answer({"PING"}), "+PONG\r\n");
}

TEST_F(RedisSessionTest, BrokenProtocolEndsTheConversationAfterItsReplies) {
  EXPECT_EQ(answers("PING\r\n*1\r\n$x\r\n"),
            "+PONG\r\n-ERR Protocol error: invalid bulk length\r\n"
            "[ends: Protocol error: invalid bulk length]");
  EXPECT_THAT(answers("POST / HTTP/1.1\r\nHost: x\r\n\r\nSET k v\r\n"), HasSubstr("no HTTP"));
  EXPECT_EQ(answers("QUIT\r\nPING\r\n"), "+OK\r\n[ends][left something]");
  EXPECT_EQ(values_.size(), 0U);
}

TEST_F(RedisSessionTest, AnswersDoNotDependOnWhereTheInputIsCut) {
  const std::string input = request({"SET", "k", "v"}) + "PING\r\n" + request({"GET", "k"}) +
                            "\r\n*0\r\n" + request({"DEL", "k"}) + request({"ECHO", "a\r\nb"});
  const std::string expected = answers(input);
  for (std::size_t piece = 1; piece < input.size(); ++piece) {
    RedisSession session(service_);
    std::string output;
    std::string waiting;
    for (std::size_t at = 0; at < input.size(); at += piece) {
      waiting += input.substr(at, piece);
      const auto taken = session.consume(waiting, output);
      ASSERT_TRUE(taken.ok());
      waiting.erase(0, *taken);
    }
    EXPECT_EQ(output, expected) << piece;
    EXPECT_EQ(waiting, "") << piece;
  }
}

TEST_F(RedisSessionTest, StopsAtTheMarkUntilItsOutputIsSent) {
  answer({"SET", "k", std::string(output_mark_bytes, 'x')});
  const std::string one = request({"GET", "k"});
  RedisSession session(service_);
  std::string output;
  const auto taken = session.consume(one + one + one, output);
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(*taken, one.size());
  const auto more = session.consume(one, output);
  ASSERT_TRUE(more.ok());
  EXPECT_EQ(*more, 0U);
  output.clear();
  EXPECT_EQ(*session.consume(one, output), one.size());
}

TEST_F(RedisSessionTest, ValuesOfALimitedLengthTogether) {
  answer({"SET", "k", std::string(16U << 20, 'x')});
  std::vector<std::string> arguments(9, "k");
  arguments.front() = "MGET";
  EXPECT_THAT(answer(arguments), HasSubstr("ask for fewer keys"));
  EXPECT_THAT(answers("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16777217\r\n"),
              HasSubstr("invalid bulk length"));
}

TEST_F(RedisSessionTest, TellsClientsWhatTheyAsk) {
  EXPECT_EQ(answer({"PING", "a"}), "$1\r\na\r\n");
  EXPECT_EQ(answer({"COMMAND", "DOCS"}), "*0\r\n");
  EXPECT_EQ(answer({"CONFIG", "GET", "Save"}), "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
  EXPECT_EQ(answer({"CONFIG", "GET", "appendonly"}), "*2\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n");
  EXPECT_EQ(answer({"CONFIG", "GET", "nothing"}), "*0\r\n");
  answer({"SET", "k", "v"});
  EXPECT_THAT(answer({"INFO", "keyspace"}), HasSubstr("db0:keys=1,"));
  EXPECT_THAT(answer({"INFO"}), HasSubstr("redis_version:"));
}

TEST(Glob, MatchesAsRedisDoes) {
  EXPECT_TRUE(matches_glob("", ""));
  EXPECT_TRUE(matches_glob("*", ""));
  EXPECT_TRUE(matches_glob("h?llo*", "hello world"));
  EXPECT_TRUE(matches_glob("*a*b*c", "xxaxxbxxbxc"));
  EXPECT_FALSE(matches_glob("*a*b*c", "xxaxxbxxbx"));
  EXPECT_TRUE(matches_glob("h[ae-g]llo", "hfllo"));
  EXPECT_FALSE(matches_glob("h[^ae-g]llo", "hfllo"));
  EXPECT_TRUE(matches_glob("h[z-a]llo", "hello"));
  EXPECT_TRUE(matches_glob("a\\*", "a*"));
  EXPECT_FALSE(matches_glob("a\\*", "ab"));
  EXPECT_TRUE(matches_glob("[abc", "b"));
  EXPECT_FALSE(matches_glob("a", "ab"));
  EXPECT_FALSE(matches_glob("ab", "a"));
}

TEST(Glob, TakesNoLongerThanTheProductOfTheLengths) {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) pattern += "a*";
  EXPECT_FALSE(matches_glob(pattern + "b", std::string(2044, 'a')));
}

}  // namespace
}  // namespace perdure::server::redis

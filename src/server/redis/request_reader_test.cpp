#include "server/redis/request_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace perdure::server::redis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Found = RequestReader::Found;

constexpr RequestLimits small_limits{4, 1000, 2000};

std::vector<std::string> read_whole(std::string_view input) {
  RequestReader reader;
  if (reader.next(input, small_limits) != Found::request) return {"not found"};
  EXPECT_EQ(reader.bytes(), input.size());
  return {reader.arguments().begin(), reader.arguments().end()};
}

std::string complaint_about(const std::string& input) {
  RequestReader reader;
  return reader.next(input, small_limits) == Found::broken ? reader.complaint() : "none";
}

TEST(RequestReader, ReadsArraysOfAnyBytes) {
  using namespace std::string_literals;
  EXPECT_THAT(read_whole("*2\r\n$3\r\nGET\r\n$5\r\n\0\r\n$*\r\n"s),
              ElementsAre("GET", "\0\r\n$*"s));
  EXPECT_THAT(read_whole("*1\r\n$0\r\n\r\n"), ElementsAre(""));
  EXPECT_THAT(read_whole("*0\r\n"), IsEmpty());
  EXPECT_THAT(read_whole("*-1\r\n"), IsEmpty());
}

TEST(RequestReader, ReadsLinesWithQuotes) {
  EXPECT_THAT(read_whole("  set  k\tv \r\n"), ElementsAre("set", "k", "v"));
  EXPECT_THAT(read_whole("set k \"a b\\x41\\n\\\"\" 'c\\'d' \"\"\n"),
              ElementsAre("set", "k", "a bA\n\"", "c'd", ""));
  EXPECT_THAT(read_whole("\r\n"), IsEmpty());
}

TEST(RequestReader, FindsARequestHoweverItIsCut) {
  for (const std::string request :
       {"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10\r\n0123456789\r\n", "set k 0123456789\r\n"}) {
    const std::string followed = request + "*1";  // arguments are views of it
    for (std::size_t cut = 0; cut < request.size(); ++cut) {
      RequestReader reader;
      EXPECT_EQ(reader.next(request.substr(0, cut), small_limits), Found::incomplete) << cut;
      EXPECT_EQ(reader.next(followed, small_limits), Found::request) << cut;
      EXPECT_EQ(reader.bytes(), request.size()) << cut;
      EXPECT_EQ(reader.arguments().back(), "0123456789") << cut;
    }
    RequestReader reader;
    for (std::size_t size = 0; size < request.size(); ++size)
      EXPECT_EQ(reader.next(request.substr(0, size), small_limits), Found::incomplete) << size;
    EXPECT_EQ(reader.next(request, small_limits), Found::request);
  }
}

TEST(RequestReader, RefusesWhatCannotBeUnderstood) {
  EXPECT_EQ(complaint_about("*1\r\n+OK\r\n"), "expected '$', got '+'");
  EXPECT_EQ(complaint_about("*1\r\n\xff"), "expected '$', got '?'");
  EXPECT_EQ(complaint_about("*x\r\n"), "invalid multibulk length");
  EXPECT_EQ(complaint_about("*1\n"), "invalid multibulk length");
  EXPECT_EQ(complaint_about("*\r\n"), "invalid multibulk length");
  EXPECT_EQ(complaint_about("*99999999999999999999999\r\n"), "invalid multibulk length");
  EXPECT_EQ(complaint_about("*" + std::string(40, '0')), "invalid multibulk length");
  EXPECT_EQ(complaint_about("*1\r\n$-1\r\n"), "invalid bulk length");
  EXPECT_EQ(complaint_about("*1\r\n$2\r\nabc\r\n"),
            "a bulk string does not end where its length says");
  EXPECT_EQ(complaint_about("set k \"a\r\n"), "unbalanced quotes in request");
  EXPECT_EQ(complaint_about("set k \"a\"b\r\n"), "unbalanced quotes in request");
}

TEST(RequestReader, RefusesWhatExceedsTheLimitsBeforeItArrives) {
  EXPECT_EQ(complaint_about("*5\r\n"), "invalid multibulk length");
  EXPECT_EQ(complaint_about("*1\r\n$1001\r\n"), "invalid bulk length");
  EXPECT_EQ(complaint_about("*1\r\n$9223372036854775807\r\n"), "invalid bulk length");
  const std::string argument = "$900\r\n" + std::string(900, 'x') + "\r\n";
  EXPECT_THAT(complaint_about("*3\r\n" + argument + argument + "$900\r\n"),
              HasSubstr("longer than 2000 bytes"));
  EXPECT_EQ(complaint_about(std::string(70'000, 'x')), "too big inline request");
  EXPECT_EQ(complaint_about(std::string(70'000, 'x') + "\n"), "too big inline request");
}

}  // namespace
}  // namespace perdure::server::redis

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "server/address.h"
#include "server/loop/deadline.h"
#include "server/loop/end_log.h"
#include "server/loop/input_buffer.h"

namespace perdure::server::loop {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void append(InputBuffer& buffer, std::string_view text) {
  while (!text.empty()) {
    const auto room = buffer.prepare();
    const std::size_t bytes = std::min(room.size(), text.size());
    std::copy_n(text.data(), bytes, room.data());
    buffer.commit(bytes);
    text.remove_prefix(bytes);
  }
}

TEST(InputBuffer, KeepsWhatIsNotTaken) {
  InputBuffer buffer;
  std::string expected;
  for (int i = 0; i < 2000; ++i) {
    const std::string piece(static_cast<std::size_t>(i * 7 % 5000),
                            static_cast<char>('a' + i % 26));
    append(buffer, piece);
    expected += piece;
    const std::size_t taken = expected.size() * static_cast<std::size_t>(i % 5) / 4;
    buffer.take(taken);
    expected.erase(0, taken);
    ASSERT_EQ(buffer.view(), expected) << i;
  }
}

TEST(Deadline, PassesForABurstThatIsFollowedByNothing) {
  const Deadline::Time begin{};
  Deadline deadline;
  EXPECT_FALSE(deadline.has_passed(begin + seconds(99), seconds(30)));
  deadline.start(begin);
  deadline.note(begin + seconds(1), 100 * Deadline::bytes_per_second);
  EXPECT_FALSE(deadline.has_passed(begin + seconds(31), seconds(30)));
  EXPECT_TRUE(deadline.has_passed(begin + milliseconds(31'001), seconds(30)));
  deadline.stop();
  EXPECT_FALSE(deadline.has_passed(begin + seconds(99), seconds(30)));
}

TEST(Deadline, PassesForAByteNowAndThenAndNotForASlowLink) {
  const Deadline::Time begin{};
  Deadline dripping;
  Deadline steady;
  dripping.start(begin);
  steady.start(begin);
  for (int second = 1; second <= 100; ++second) {
    dripping.note(begin + seconds(second), 1);
    steady.note(begin + seconds(second), Deadline::bytes_per_second);
  }
  EXPECT_TRUE(dripping.has_passed(begin + seconds(100), seconds(30)));
  EXPECT_FALSE(steady.has_passed(begin + seconds(100), seconds(30)));
}

TEST(EndLog, PrintsOneLineForEachEndAndNoFlood) {
  const EndLog::Time begin{};
  EndLog log;
  EXPECT_EQ(log.text_at(begin, "here", "two\nlines"), "perdure: here: two lines\n");
  for (unsigned i = 1; i < EndLog::lines_per_second; ++i)
    EXPECT_THAT(log.text_at(begin, "here", "x"), HasSubstr("here: x"));
  for (int i = 0; i < 5; ++i) EXPECT_THAT(log.text_at(begin, "here", "x"), IsEmpty());
  EXPECT_EQ(log.text_at(begin + seconds(1), "here", "y"),
            "perdure: 5 more connections ended for a reason\nperdure: here: y\n");
}

TEST(Address, SaysWhereClientsConnect) {
  EXPECT_EQ((Address{"127.0.0.1", 6379}.text()), "127.0.0.1:6379");
  EXPECT_EQ((Address{"::1", 6379}.text()), "[::1]:6379");
  EXPECT_EQ((Address{"", 0, "here.sock"}.text()), "here.sock");
  EXPECT_EQ(read_host("localhost", "--listen").value(), "127.0.0.1");
  EXPECT_THAT(read_host("example.org", "--listen").error().line(), HasSubstr("--listen"));
  EXPECT_TRUE(is_loopback("127.1.2.3"));
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_FALSE(is_loopback("0.0.0.0"));
  EXPECT_FALSE(is_loopback("::"));
  EXPECT_FALSE(is_loopback("192.168.0.1"));
}

}  // namespace
}  // namespace perdure::server::loop

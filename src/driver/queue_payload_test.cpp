#include "driver/queue_payload.h"

#include <gtest/gtest.h>

namespace perdure::driver {
namespace {

TEST(QueuePayload, TellsWhichPushItIsOf) {
  for (const std::size_t bytes :
       {8UL, 9UL, 15UL, 16UL, 255UL, 256UL, 257UL, 263UL, 264UL, 271UL, 4096UL, 65536UL}) {
    QueuePayload payload(13, bytes);
    for (const std::uint64_t number : {1UL, 2UL, 1UL << 40}) {
      const auto push = push_of(payload.of(number), bytes);
      ASSERT_TRUE(push) << bytes;
      EXPECT_EQ(push->producer, 13U);
      EXPECT_EQ(push->number, number);
    }
  }
}

TEST(QueuePayload, EveryChangedByteIsNoticed) {
  constexpr std::size_t bytes = 600;
  const std::string whole(QueuePayload(2, bytes).of(7));
  for (std::size_t at = 0; at < bytes; ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    const auto push = push_of(changed, bytes);
    EXPECT_FALSE(push) << at;
  }
}

TEST(QueuePayload, PartsOfTwoPushesAreNoPayload) {
  constexpr std::size_t bytes = 1024;
  const std::string older(QueuePayload(2, bytes).of(7));
  const std::string newer(QueuePayload(2, bytes).of(8));
  // From there on only zeros are left, which both have.
  for (std::size_t cut = 1; cut <= bytes - 8; ++cut) {
    EXPECT_FALSE(push_of(newer.substr(0, cut) + older.substr(cut), bytes)) << cut;
    EXPECT_FALSE(push_of(older.substr(0, cut) + newer.substr(cut), bytes)) << cut;
  }
  EXPECT_FALSE(push_of(newer.substr(1), bytes));
}

TEST(QueuePayload, FewerBytesThanAStampAreAPartOfIt) {
  QueuePayload payload(1, 2);
  EXPECT_EQ(payload.of(0x0201), std::string_view("\x01\x02"));
  EXPECT_FALSE(push_of(payload.of(1), 2));
  EXPECT_EQ(QueuePayload(1, 0).of(1), "");
}

}  // namespace
}  // namespace perdure::driver

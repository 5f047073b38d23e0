#include "core/units.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/rng.h"

namespace perdure {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

TEST(Units, CountsUsePowersOfThousand) {
  EXPECT_EQ(parse_count("0").value(), 0U);
  EXPECT_EQ(parse_count("10M").value(), 10'000'000U);
  EXPECT_EQ(parse_count("1_000_000").value(), 1'000'000U);
  EXPECT_EQ(parse_count("2e6").value(), 2'000'000U);
  EXPECT_EQ(parse_count("1.5M").value(), 1'500'000U);
  EXPECT_EQ(parse_count("1.25e2").value(), 125U);
  EXPECT_EQ(parse_count("3k").value(), 3'000U);
  EXPECT_EQ(parse_count("3K").value(), 3'000U);
  EXPECT_EQ(parse_count("2G").value(), 2'000'000'000U);
  EXPECT_EQ(parse_count("18446744073709551615").value(), largest);
}

TEST(Units, PlainSuffixesOfByteSizesArePowersOfTwo) {
  EXPECT_EQ(parse_bytes("1G").value(), 1ULL << 30);
  EXPECT_EQ(parse_bytes("1GiB").value(), 1ULL << 30);
  EXPECT_EQ(parse_bytes("1GB").value(), 1'000'000'000U);
  EXPECT_EQ(parse_bytes("64KiB").value(), 65'536U);
  EXPECT_EQ(parse_bytes("64K").value(), 65'536U);
  EXPECT_EQ(parse_bytes("1.5KiB").value(), 1'536U);
  EXPECT_EQ(parse_bytes("100").value(), 100U);
  EXPECT_EQ(parse_bytes("100B").value(), 100U);
  EXPECT_EQ(parse_bytes("0.5MiB").value(), 524'288U);
}

TEST(Units, RejectsWhatIsNoWholeNumber) {
  for (const char* text : {"",
                           "M",
                           "-1",
                           "+1",
                           "1.5",
                           "1.",
                           ".5",
                           "1__0",
                           "_1",
                           "1_",
                           "10X",
                           "1 M",
                           "1e",
                           "1e-3",
                           "0x10",
                           "18446744073709551616",
                           "99999999999G",
                           "1e31",
                           "1MiB",
                           "1.2345k",
                           "99999999999999999999999999999999999999999",
                           "nan"}) {
    const auto result = parse_count(text, "--records");
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.error().where, "--records") << text;
    EXPECT_EQ(result.error().code, ErrorCode::usage) << text;
    EXPECT_FALSE(result.error().remedy.empty()) << text;
  }
  EXPECT_FALSE(parse_bytes("0.3KiB").ok());
  EXPECT_FALSE(parse_bytes("16777216TiB").ok());
  EXPECT_TRUE(parse_bytes("16777215TiB").ok());
}

TEST(Units, FormatsWhatItReadsBack) {
  EXPECT_EQ(format_count(10'000'000), "10M");
  EXPECT_EQ(format_count(1'234), "1234");
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_bytes(65'536), "64KiB");
  EXPECT_EQ(format_bytes(100), "100B");
  EXPECT_EQ(format_bytes(0), "0B");
  Rng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    std::uint64_t value = rng() >> rng.below(64);
    if (rng.below(2) == 0) value -= value % 1'024'000;
    ASSERT_EQ(parse_count(format_count(value)).value(), value);
    ASSERT_EQ(parse_bytes(format_bytes(value)).value(), value);
  }
}

}  // namespace
}  // namespace perdure

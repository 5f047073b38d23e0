#include "pm/simd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "core/rng.h"
#include "pm/simd_lines.h"

namespace perdure::pm {
namespace {

class SimdTest : public testing::TestWithParam<SimdLevel> {
 protected:
  SimdTest() { configure_simd(GetParam()); }
  ~SimdTest() override { configure_simd(SimdLevel::avx512); }
};

INSTANTIATE_TEST_SUITE_P(Levels, SimdTest,
                         testing::Values(SimdLevel::sse2, SimdLevel::avx2, SimdLevel::avx512),
                         [](const auto& info) { return name_of(info.param); });

std::uint64_t match_scalar(const std::uint8_t* bytes, unsigned count, std::uint8_t wanted) {
  std::uint64_t mask = 0;
  for (unsigned i = 0; i < count; ++i)
    if (bytes[i] == wanted) mask |= std::uint64_t{1} << i;
  return mask;
}

TEST_P(SimdTest, MatchesAgreeWithScalarCodeOnRandomBytes) {
  Rng rng(9);
  alignas(64) std::array<std::uint8_t, 64 + 16> bytes;
  for (int round = 0; round < 20'000; ++round) {
    const std::uint64_t values = round % 2 == 0 ? 256 : 3;  // few values: many matches
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(rng.below(values) * 85);
    const auto wanted = static_cast<std::uint8_t>(rng.below(values) * 85);
    ASSERT_EQ(match_64(bytes.data(), wanted), match_scalar(bytes.data(), 64, wanted));
    const std::size_t shift = rng.below(64);
    ASSERT_EQ(match_16(&bytes[shift], wanted), match_scalar(&bytes[shift], 16, wanted));
  }
}

TEST_P(SimdTest, EveryPositionAndEveryByteIsFound) {
  alignas(64) std::array<std::uint8_t, 64> bytes;
  for (unsigned value = 0; value < 256; ++value)
    for (unsigned position = 0; position < 64; ++position) {
      bytes.fill(static_cast<std::uint8_t>(~value));
      bytes[position] = static_cast<std::uint8_t>(value);
      ASSERT_EQ(match_64(bytes.data(), static_cast<std::uint8_t>(value)),
                std::uint64_t{1} << position);
    }
}

TEST_P(SimdTest, CountsInAnOrderAgreeWithScalarCode) {
  Rng rng(12);
  std::array<std::atomic<std::uint64_t>, 16> words;
  for (int round = 0; round < 20'000; ++round) {
    std::array<unsigned, 15> places;
    for (unsigned i = 0; i < places.size(); ++i) places[i] = i;
    for (unsigned i = 14; i > 0; --i) std::swap(places[i], places[rng.below(i + 1)]);
    for (auto& word : words) word = rng();  // those out of use too
    const auto count = static_cast<unsigned>(rng.below(16));
    std::array<std::uint64_t, 15> sorted;
    for (unsigned i = 0; i < count; ++i)  // few values and both ends of the range
      sorted[i] = round % 2 == 0 ? rng() : rng.below(4) - 2 + (rng.below(2) << 63);
    std::sort(sorted.begin(), sorted.begin() + count);
    std::uint64_t order = count;
    for (unsigned i = 0; i < places.size(); ++i) {
      order |= std::uint64_t{places[i]} << (4 + 4 * i);
      if (i < count) words[places[i]] = sorted[i];
    }
    const std::uint64_t limit = count != 0 && rng.below(2) == 0 ? sorted[rng.below(count)] : rng();
    const auto below = std::lower_bound(sorted.begin(), sorted.begin() + count, limit);
    ASSERT_EQ(count_below_in_order(words.data(), order, limit), below - sorted.begin());
  }
}

TEST_P(SimdTest, CountsAgreeWithScalarCode) {
  Rng rng(10);
  std::array<std::atomic<std::uint64_t>, 16 + 8> words;
  for (int round = 0; round < 20'000; ++round) {
    for (auto& word : words)  // few values and both ends of the range, so that ties are common
      word = round % 2 == 0 ? rng() : rng.below(4) - 2 + (rng.below(2) << 63);
    const std::uint64_t limit = rng.below(2) == 0 ? words[rng.below(16)].load() : rng();
    const std::size_t shift = rng.below(8);
    const auto count = [&](std::size_t n) {
      unsigned up_to = 0;
      for (std::size_t i = 0; i < n; ++i) up_to += words[shift + i] <= limit;
      return up_to;
    };
    ASSERT_EQ(count_up_to<8>(&words[shift], limit), count(8));
    ASSERT_EQ(count_up_to<15>(&words[shift], limit), count(15));
    ASSERT_EQ(count_up_to<16>(&words[shift], limit), count(16));
  }
}

TEST_P(SimdTest, CountsOf32BitWordsAgreeWithScalarCode) {
  Rng rng(10);
  alignas(64) std::array<std::uint32_t, 32> words;
  for (int round = 0; round < 20'000; ++round) {
    const auto narrow = static_cast<unsigned>(rng.below(32));
    for (auto& word : words) word = static_cast<std::uint32_t>(rng()) >> narrow;
    const std::uint32_t limit =
        round % 3 == 0 ? words[rng.below(32)] : static_cast<std::uint32_t>(rng());
    const auto count_from = [&](unsigned first) {
      return std::count_if(words.begin() + first, words.end(),
                           [&](std::uint32_t word) { return word <= limit; });
    };
    ASSERT_EQ(count_words32_up_to<0>(words.data(), limit), count_from(0));
    ASSERT_EQ(count_words32_up_to<6>(words.data(), limit), count_from(6));
  }
}

TEST_P(SimdTest, MatchesInALineAgreeWithScalarCode) {
  Rng rng(14);
  alignas(64) std::array<std::uint64_t, 8> words;
  for (int round = 0; round < 20'000; ++round) {
    for (auto& word : words) word = rng.below(3) << 40 | rng.below(2);
    const std::uint64_t wanted = rng.below(3) << 40 | rng.below(2);
    std::uint32_t expected = 0;
    for (unsigned i = 0; i < 8; ++i) expected |= std::uint32_t{words[i] == wanted} << i;
    ASSERT_EQ(match_line(words.data(), wanted), expected);
  }
}

TEST_P(SimdTest, AreZeroFindsEveryBit) {
  std::array<std::atomic<std::uint64_t>, 64> words{};
  for (unsigned n = 0; n <= words.size(); ++n) {
    ASSERT_TRUE(are_zero(words.data(), n));
    for (unsigned i = 0; i < words.size(); ++i) {
      words[i] = std::uint64_t{1} << i;
      ASSERT_EQ(are_zero(words.data(), n), i >= n);
      words[i] = 0;
    }
  }
}

TEST_P(SimdTest, RanksAgreeWithScalarCode) {
  Rng rng(13);
  std::array<std::int32_t, 64> values;
  std::array<std::int32_t, 64> ranks;
  for (int round = 0; round < 3'000; ++round) {
    for (auto& value : values)  // with ties in every other round
      value = static_cast<std::int32_t>(round % 2 == 0 ? rng() : rng.below(40) - 20);
    const auto count = static_cast<unsigned>(rng.below(65));
    rank_by_counting(values, count, ranks);
    for (unsigned i = 0; i < count; ++i)
      ASSERT_EQ(ranks[i], std::count_if(values.begin(), values.begin() + count,
                                        [&](std::int32_t other) { return other < values[i]; }));
  }
}

TEST_P(SimdTest, CountedBitsAgreeWithScalarCode) {
  Rng rng(12);
  EXPECT_EQ(count_bits(0), 0U);
  EXPECT_EQ(count_bits(~std::uint64_t{0}), 64U);
  for (int round = 0; round < 20'000; ++round) {
    const std::uint64_t word = rng() & rng();
    unsigned bits = 0;
    for (unsigned i = 0; i < 64; ++i) bits += static_cast<unsigned>(word >> i & 1);
    ASSERT_EQ(count_bits(word), bits);
  }
}

TEST_P(SimdTest, ExtractedBitsAgreeWithScalarCode) {
  Rng rng(11);
  EXPECT_EQ(extract_bits(0b1011'0010, 0b1100'0110), 0b1001U);
  for (int round = 0; round < 20'000; ++round) {
    const std::uint64_t word = rng();
    const std::uint64_t mask = rng() & rng();
    std::uint64_t bits = 0;
    unsigned to = 0;
    for (unsigned from = 0; from < 64; ++from)
      if ((mask >> from & 1) != 0) bits |= (word >> from & 1) << to++;
    ASSERT_EQ(extract_bits(word, mask), bits);
  }
}

template <class Word>
void expect_short_subsets_as_scalar(Rng& rng) {
  std::array<Word, 64> keys;
  for (int round = 0; round < 20'000; ++round) {
    for (Word& key : keys) key = static_cast<Word>(rng() & rng() & rng());
    const auto word = static_cast<Word>(rng() | rng());
    const auto count = 1 + static_cast<std::uint32_t>(rng.below(32));
    std::uint32_t expected = 0;
    for (unsigned i = 0; i < count; ++i)
      expected |= std::uint32_t{(keys[i] & word) == keys[i]} << i;
    ASSERT_EQ(detail::match_short_subsets_avx512(keys.data(), sizeof(Word) == 1, word, count),
              expected);
  }
}

TEST(WideSimd, ShortSubsetsAgreeWithScalarCode) {
  if (detail::simd_level != SimdLevel::avx512 || !detail::has_pext) return;  // never called there
  Rng rng(16);
  expect_short_subsets_as_scalar<std::uint8_t>(rng);
  expect_short_subsets_as_scalar<std::uint16_t>(rng);
}

TEST(SimdLevelTest, IsNeverAboveWhatTheMachineHas) {
  configure_simd(SimdLevel::avx512);
  EXPECT_LE(detail::simd_level, detect_simd_level());
  configure_simd(SimdLevel::sse2);
  EXPECT_EQ(detail::simd_level, SimdLevel::sse2);
  configure_simd(SimdLevel::avx512);
}

}  // namespace
}  // namespace perdure::pm

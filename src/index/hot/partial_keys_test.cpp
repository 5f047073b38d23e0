#include "index/hot/partial_keys.h"

#include <gtest/gtest.h>

#include <array>

#include "core/rng.h"
#include "index/hot/node.h"

namespace perdure::hot {
namespace {

bool is_wide() { return Node::is_wide(); }

template <class Key>
[[gnu::target("avx512f,avx512bw")]] std::uint32_t match_valid(const Key* keys, std::uint32_t valid,
                                                              std::uint32_t mask,
                                                              std::uint32_t value) {
  return match_masked_wide(keys, valid, mask, value);
}
template <class Key>
[[gnu::target("avx512f,avx512bw")]] void shift(const Key* from, const KeyShift& by, Key* to) {
  shift_keys(from, by, to);
}

class PartialKeys : public testing::TestWithParam<pm::SimdLevel> {
 protected:
  PartialKeys() { pm::configure_simd(GetParam()); }
  ~PartialKeys() override { pm::configure_simd(pm::SimdLevel::avx512); }
};

INSTANTIATE_TEST_SUITE_P(Levels, PartialKeys,
                         testing::Values(pm::SimdLevel::sse2, pm::SimdLevel::avx2,
                                         pm::SimdLevel::avx512),
                         [](const auto& info) { return name_of(info.param); });

template <class Word>
void expect_masked_as_scalar(Rng& rng) {
  std::array<Word, 32 + 3> keys;
  for (int round = 0; round < 20'000; ++round) {
    for (Word& key : keys) key = static_cast<Word>(rng());
    const auto mask = static_cast<Word>(rng() & rng() & rng());
    const std::size_t shift = rng.below(4);
    const Word value = keys[rng.below(keys.size())];
    std::uint32_t expected = 0;
    for (unsigned i = 0; i < 32; ++i)
      expected |= std::uint32_t{((keys[shift + i] ^ value) & mask) == 0} << i;
    ASSERT_EQ(match_masked(&keys[shift], mask, value), expected);
    if constexpr (sizeof(Word) <= 2)
      if (is_wide()) {
        const auto valid = static_cast<std::uint32_t>(rng());
        ASSERT_EQ(match_valid(&keys[shift], valid, mask, value), expected & valid);
      }
  }
}

TEST_P(PartialKeys, MaskedMatchesAgreeWithScalarCode) {
  Rng rng(14);
  expect_masked_as_scalar<std::uint8_t>(rng);
  expect_masked_as_scalar<std::uint16_t>(rng);
  expect_masked_as_scalar<std::uint32_t>(rng);
}

TEST_P(PartialKeys, CopiesLeaveAGapAndWriteNothingBehind) {
  Rng rng(15);
  for (int round = 0; round < 20'000; ++round) {
    const auto count = static_cast<unsigned>(rng.below(33));
    const auto gap = static_cast<unsigned>(rng.below(count + 1));
    std::array<std::uint64_t, 34> from;
    std::array<std::uint64_t, 35> to;
    for (auto& word : from) word = rng();
    to.fill(7);
    copy_with_gap(&from[1], count, gap, to.data());
    for (unsigned i = 0; i < gap; ++i) ASSERT_EQ(to[i], from[1 + i]);
    for (unsigned i = gap; i < count; ++i) ASSERT_EQ(to[i + 1], from[1 + i]);
    for (unsigned i = count + 1; i < to.size(); ++i) ASSERT_EQ(to[i], 7U);
  }
}

template <class Word>
void expect_subsets_as_scalar(Rng& rng) {
  std::array<Word, 32 + 3> keys;
  for (int round = 0; round < 20'000; ++round) {
    for (Word& key : keys) key = static_cast<Word>(rng() & rng() & rng());
    const auto word = static_cast<Word>(rng() | rng());
    const std::size_t shift = rng.below(4);
    std::uint32_t expected = 0;
    for (unsigned i = 0; i < 32; ++i)
      expected |= std::uint32_t{(keys[shift + i] & word) == keys[shift + i]} << i;
    ASSERT_EQ(match_subsets(&keys[shift], word), expected);
  }
}

template <class Word>
void expect_shifted_as_scalar(Rng& rng) {
  for (int round = 0; round < 20'000; ++round) {
    const auto count = 1 + static_cast<unsigned>(rng.below(31));
    const auto gap = static_cast<unsigned>(rng.below(count + 1));
    std::array<Word, 34> from;
    std::array<Word, 34> to;
    for (Word& key : from) key = static_cast<Word>(rng());
    to.fill(7);
    const auto lanes = static_cast<std::uint32_t>((std::uint64_t{2} << count) - 1);
    const std::uint32_t bit = std::uint32_t{1} << gap;
    KeyShift by;
    by.before = bit - 1;
    by.gap = bit;
    by.after = lanes & ~(by.before | bit);
    by.high = static_cast<std::uint32_t>(rng());
    by.marked = lanes & ~bit & static_cast<std::uint32_t>(rng());
    by.mark = static_cast<std::uint32_t>(rng());
    by.fresh = static_cast<std::uint32_t>(rng());
    shift(&from[1], by, to.data());
    for (unsigned i = count + 1; i < to.size(); ++i) ASSERT_EQ(to[i], 7);
    for (unsigned i = 0; i <= count; ++i) {
      const Word old = from[i < gap ? i + 1 : i];
      const auto mark = static_cast<Word>((by.marked >> i & 1) != 0 ? by.mark : 0);
      const auto moved = static_cast<Word>((old + (old & static_cast<Word>(by.high))) | mark);
      ASSERT_EQ(to[i], i == gap ? static_cast<Word>(by.fresh) : moved);
    }
  }
}

TEST(WideKeys, ShiftAsScalarCode) {
  if (!is_wide()) return;  // never called there
  Rng rng(16);
  expect_shifted_as_scalar<std::uint8_t>(rng);
  expect_shifted_as_scalar<std::uint16_t>(rng);
}

TEST_P(PartialKeys, SubsetsAgreeWithScalarCode) {
  Rng rng(12);
  expect_subsets_as_scalar<std::uint8_t>(rng);
  expect_subsets_as_scalar<std::uint16_t>(rng);
  expect_subsets_as_scalar<std::uint32_t>(rng);
}

}  // namespace
}  // namespace perdure::hot

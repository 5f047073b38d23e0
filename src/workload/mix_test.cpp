#include "workload/mix.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace perdure::workload {
namespace {

Mix mix_of(const char* text) {
  const auto mix = parse_mix(text);
  EXPECT_TRUE(mix.ok()) << text;
  return mix.ok() ? *mix : Mix::lookups_only();
}

TEST(Mix, SumsExactlyWhereFloatsDoNot) {
  const Mix mix = mix_of("lookup=0.1,insert=0.2,scan=0.7");
  EXPECT_EQ(mix.parts_per_billion.total(), whole_share);
  EXPECT_EQ(mix.parts_per_billion[Operation::insert], 200'000'000U);
  EXPECT_TRUE(parse_mix("lookup=0.333333333, insert=0.333333333, scan=0.333333334").ok());
  EXPECT_EQ(mix_of("lookup=1"), Mix::lookups_only());
  EXPECT_EQ(mix_of("lookup=1.0,insert=0"), Mix::lookups_only());
}

TEST(Mix, ReadsBackItsText) {
  for (const char* text :
       {"lookup=0.9,insert=0.1", "lookup=1", "lookup=0.000000001,scan=0.999999999"})
    EXPECT_EQ(text_of(mix_of(text)), text);
}

TEST(Mix, RejectsWithPlaceAndRemedy) {
  struct Case {
    const char* text;
    const char* part;  // of the line
  };
  for (const auto& [text, part] : {Case{"lookup=0.9", "add 0.1"},
                                   {"lookup=0.9,insert=0.2", "take away 0.1"},
                                   {"lokup=1", "did you mean 'lookup'?"},
                                   {"read=1", "use lookup"},
                                   {"push=0.5,pop=0.5", "no operation is called 'push'"},
                                   {"lookup", "no '='"},
                                   {"", "no '='"},
                                   {"lookup=1,", "no '='"},
                                   {"lookup=0.5,lookup=0.5", "given twice"},
                                   {"lookup=-1", "no share"},
                                   {"lookup=1.1", "at most 1"},
                                   {"lookup=2", "at most 1"},
                                   {"lookup=99999999999999999999999", "at most 1"},
                                   {"lookup=.5", "no share"},
                                   {"lookup=0.", "no share"},
                                   {"lookup=1e-1", "no share"},
                                   {"lookup=0.1234567891", "nine decimals"},
                                   {"lookup=0.99999999,insert=0.00000002", "1.00000001"}}) {
    const auto mix = parse_mix(text);
    ASSERT_FALSE(mix.ok()) << text;
    EXPECT_EQ(mix.error().where, "--mix");
    EXPECT_NE(mix.error().line().find(part), std::string::npos) << mix.error().line();
    EXPECT_EQ(mix.error().line().find('\n'), std::string::npos);
  }
}

TEST(Mix, InStepsRoundsDownAndGivesTheRestToLookups) {
  const Mix mix = mix_of("lookup=0.9,insert=0.05,remove=0.05");  // 12.8 of 256 each
  const Mix rounded = in_steps(mix, 256);
  EXPECT_EQ(rounded, mix_of("lookup=0.90625,insert=0.046875,remove=0.046875"));
  EXPECT_EQ(in_steps(rounded, 256), rounded);
  EXPECT_EQ(in_steps(mix, 0), mix);
  EXPECT_EQ(in_steps(mix_of("insert=0.5,remove=0.5"), 256), mix_of("insert=0.5,remove=0.5"));
  EXPECT_EQ(in_steps(mix_of("insert=0.003,scan=0.997"), 256),
            mix_of("lookup=0.00390625,scan=0.99609375"));
  EXPECT_EQ(in_steps(mix, 3).parts_per_billion.total(), whole_share);
}

TEST(Mix, ApportionsByLargestRemainder) {
  const Mix mix = mix_of("lookup=0.5,insert=0.3,scan=0.2");
  EXPECT_EQ(apportion(mix, 10).of,
            (std::array<std::uint64_t, operation_kinds>{5, 0, 3, 0, 0, 0, 2}));
  // 3.5, 2.1 and 1.4: the odd one goes to the largest remainder.
  EXPECT_EQ(apportion(mix, 7).of,
            (std::array<std::uint64_t, operation_kinds>{4, 0, 2, 0, 0, 0, 1}));
  EXPECT_EQ(apportion(mix, 0).total(), 0U);
  const std::uint64_t many = 1'000'000'000'000'000'003;
  const OperationCounts counts = apportion(mix, many);
  EXPECT_EQ(counts.total(), many);
  EXPECT_EQ(counts[Operation::insert], 300'000'000'000'000'001U);
}

TEST(Mix, CountsAreWithinOneOfTheExactShare) {
  Rng rng(11);
  for (int round = 0; round < 3000; ++round) {
    Mix mix;
    std::uint64_t left = whole_share;
    for (std::size_t i = 0; i + 1 < operation_kinds; ++i) {
      mix.parts_per_billion.of[i] = rng.below(left + 1);
      left -= mix.parts_per_billion.of[i];
    }
    mix.parts_per_billion.of[operation_kinds - 1] = left;
    std::shuffle(mix.parts_per_billion.of.begin(), mix.parts_per_billion.of.end(), rng);
    const std::uint64_t n = rng() >> (4 + rng.below(60));
    const OperationCounts counts = apportion(mix, n);
    ASSERT_EQ(counts.total(), n);
    __extension__ using Wide = unsigned __int128;
    for (std::size_t i = 0; i < operation_kinds; ++i) {
      const Wide exact = static_cast<Wide>(n) * mix.parts_per_billion.of[i];
      const auto low = static_cast<std::uint64_t>(exact / whole_share);
      ASSERT_GE(counts.of[i], low);
      ASSERT_LE(counts.of[i], low + (exact % whole_share != 0 ? 1 : 0));
    }
    const auto threads = static_cast<unsigned>(1 + rng.below(70));
    OperationCounts sum;
    std::uint64_t least = ~0ULL;
    std::uint64_t most = 0;
    for (unsigned t = 0; t < threads; ++t) {
      const OperationCounts part = thread_part(counts, t, threads);
      for (std::size_t i = 0; i < operation_kinds; ++i) sum.of[i] += part.of[i];
      least = std::min(least, part.total());
      most = std::max(most, part.total());
    }
    ASSERT_EQ(sum, counts);
    ASSERT_LE(most - least, 1U);
  }
}

TEST(Deck, DealsExactlyItsCountsInVaryingOrder) {
  OperationCounts counts;
  counts[Operation::lookup] = 5;
  counts[Operation::insert] = 3;
  counts[Operation::scan] = 1;
  PerOperation<std::uint64_t> first;
  constexpr int rounds = 90'000;
  Rng rng(3);
  for (int round = 0; round < rounds; ++round) {
    Deck deck(counts);
    OperationCounts dealt;
    for (bool is_first = true; deck.left() != 0; is_first = false) {
      const Operation operation = deck.deal(rng);
      ++dealt[operation];
      if (is_first) ++first[operation];
    }
    ASSERT_EQ(dealt, counts);
  }
  // A shuffle puts each kind first as often as its share: 5/9, 3/9, 1/9, within five deviations.
  EXPECT_NEAR(static_cast<double>(first[Operation::lookup]), rounds * 5.0 / 9, 5 * 149);
  EXPECT_NEAR(static_cast<double>(first[Operation::insert]), rounds * 3.0 / 9, 5 * 141);
  EXPECT_NEAR(static_cast<double>(first[Operation::scan]), rounds * 1.0 / 9, 5 * 94);
}

TEST(Deck, RepeatingDeckHoldsExactShares) {
  for (const char* text :
       {"lookup=0.9,insert=0.1", "lookup=1", "lookup=0.123456789,scan=0.876543211",
        "lookup=0.25,insert=0.25,update=0.25,remove=0.25"}) {
    const Mix mix = mix_of(text);
    const OperationCounts deck = repeating_deck(mix);
    const std::uint64_t n = deck.total();
    EXPECT_GE(n, 4096U);
    for (std::size_t i = 0; i < operation_kinds; ++i)
      EXPECT_EQ(deck.of[i] * whole_share, n * mix.parts_per_billion.of[i]) << text;
  }
}

}  // namespace
}  // namespace perdure::workload

#include "workload/key_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/rng.h"
#include "workload/key_words.h"
#include "workload/keys.h"
#include "workload/kmer_keys.h"
#include "workload/snowflake_keys.h"

namespace perdure::workload {
namespace {

using Form = Keys::Form;

constexpr std::array integer_sets{Form::snowflake, Form::clustered, Form::ipv4, Form::kmer};
constexpr std::array text_sets{Form::uuid, Form::uuid_binary, Form::kmer_text, Form::email,
                               Form::url};

Workload of_set(Form form, std::uint64_t seed = 1) {
  Workload workload;
  workload.keys.form = form;
  workload.seed = seed;
  return workload;
}

std::vector<std::uint64_t> words_of(Form form, std::uint64_t count, std::uint64_t seed = 1) {
  const KeySpace keys(of_set(form, seed));
  std::vector<std::uint64_t> words(count);
  for (std::uint64_t id = 0; id < count; ++id) words[id] = keys.word(id);
  return words;
}

std::string text_of(const KeySpace& keys, std::uint64_t id) {
  std::string key(keys.longest(), '\0');
  key.resize(keys.write(id, key.data()));
  return key;
}

/// Ids as a run has them, any others that the set has, and absent ones.
std::vector<std::uint64_t> ids_to_try(const KeySpace& keys) {
  std::vector<std::uint64_t> ids;
  for (std::uint64_t id = 0; id < 10'000; ++id) ids.push_back(id);
  Rng rng(5);
  for (int i = 0; i < 10'000; ++i) {
    ids.push_back(rng() % keys.ids() >> rng.below(40));
    ids.push_back(keys.absent_id(rng()));
  }
  ids.push_back(keys.ids() - 1);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

TEST(KeySet, IntegersOfDistinctIdsAreDistinctAndLeadBack) {  // K1, K2
  for (const Form form : integer_sets)
    for (const std::uint64_t seed : {1U, 2U, 77U}) {
      const KeySpace keys(of_set(form, seed));
      std::unordered_set<std::uint64_t> seen;
      for (const std::uint64_t id : ids_to_try(keys)) {
        const std::uint64_t word = keys.word(id);
        ASSERT_TRUE(seen.insert(word).second) << name_of(form) << " id " << id;
        ASSERT_EQ(keys.id_of(word), id) << name_of(form) << " seed " << seed;
      }
    }
}

TEST(KeySet, TextsOfDistinctIdsAreDistinctAndLeadBack) {  // K1, K2
  for (const Form form : text_sets)
    for (const std::uint64_t seed : {1U, 2U, 77U}) {
      const KeySpace keys(of_set(form, seed));
      std::unordered_set<std::string> seen;
      for (const std::uint64_t id : ids_to_try(keys)) {
        const std::string key = text_of(keys, id);
        ASSERT_LE(key.size(), keys.longest());
        ASSERT_TRUE(seen.insert(key).second) << name_of(form) << " id " << id;
        ASSERT_EQ(keys.id_of(key), id) << name_of(form) << " " << key;
      }
    }
}

TEST(KeySet, WhatIdOfAcceptsIsTheKeyOfThatId) {  // K1
  Rng rng(9);
  for (const Form form : integer_sets) {
    const KeySpace keys(of_set(form));
    for (int i = 0; i < 100'000; ++i) {
      // Far from any key, and one bit from one.
      const std::uint64_t near = keys.word(rng.below(1000)) ^ std::uint64_t{1} << rng.below(64);
      for (const std::uint64_t word : {rng() >> rng.below(64), near}) {
        const std::uint64_t id = keys.id_of(word);
        ASSERT_TRUE(id == no_id || keys.word(id) == word) << name_of(form) << " " << word;
      }
    }
  }
  for (const Form form : text_sets) {
    const KeySpace keys(of_set(form));
    for (int i = 0; i < 20'000; ++i) {
      std::string key = text_of(keys, rng.below(1000));
      switch (rng.below(4)) {
        case 0:
          key[rng.below(key.size())] ^= static_cast<char>(1 << rng.below(8));
          break;
        case 1:
          key.resize(rng.below(key.size()));
          break;
        case 2:
          key.insert(rng.below(key.size()), 1, "0a@-.9"[rng.below(6)]);
          break;
        default:
          key.erase(rng.below(key.size()), 1);
      }
      const auto id = keys.id_of(key);
      ASSERT_TRUE(!id || text_of(keys, *id) == key) << name_of(form) << " " << key;
    }
    EXPECT_EQ(keys.id_of(""), std::nullopt);
    EXPECT_EQ(keys.id_of("@"), std::nullopt);
    EXPECT_EQ(keys.id_of("@.test"), std::nullopt);
    EXPECT_EQ(keys.id_of(std::string(36, '-')), std::nullopt);
    EXPECT_EQ(keys.id_of("ada.alado99999999999999999999@mail.test"), std::nullopt);
  }
}

TEST(KeySet, KeysFollowFromTheSeed) {  // K3
  for (const Form form : integer_sets) {
    EXPECT_EQ(words_of(form, 1000, 4), words_of(form, 1000, 4));
    const auto a = words_of(form, 1000, 4);
    const auto b = words_of(form, 1000, 5);
    int equal = 0;
    for (std::size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i] ? 1 : 0;
    EXPECT_LT(equal, 3) << name_of(form);
  }
  for (const Form form : text_sets) {
    const KeySpace a(of_set(form, 4));
    const KeySpace again(of_set(form, 4));
    const KeySpace b(of_set(form, 5));
    int equal = 0;
    for (std::uint64_t id = 0; id < 1000; ++id) {
      ASSERT_EQ(text_of(a, id), text_of(again, id));
      equal += text_of(a, id) == text_of(b, id) ? 1 : 0;
    }
    EXPECT_LT(equal, 3) << name_of(form);
  }
}

TEST(KeySet, AbsentKeysLieAmongThePresentOnes) {  // K2
  for (const Form form : integer_sets) {
    Workload workload = of_set(form);
    workload.records = 50'000;
    const KeySpace keys(workload);
    const auto words = words_of(form, workload.records);
    const auto [least, most] = std::minmax_element(words.begin(), words.end());
    Rng rng(3);
    int inside = 0;
    for (int i = 0; i < 1000; ++i) {
      const std::uint64_t word = keys.word(keys.absent_id(rng()));
      inside += word > *least && word < *most ? 1 : 0;
    }
    // The absent ids are those of 65,536 arrivals at least; of snowflake, some come after the last.
    EXPECT_GT(inside, 700) << name_of(form);
  }
}

TEST(KeySet, NamesAndWordsAreDistinct) {
  const auto distinct = [](std::span<const std::string_view> words) {
    return std::set<std::string_view>(words.begin(), words.end()).size() == words.size() &&
           std::count(words.begin(), words.end(), std::string_view{}) == 0;
  };
  EXPECT_TRUE(distinct(given_names));
  EXPECT_TRUE(distinct(plain_words));
  std::set<std::string> families;
  std::set<std::string> domains;
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 16; ++j) {
      families.insert(std::string(family_starts[i]) + std::string(family_ends[j]));
      domains.insert(std::string(domain_starts[i]) + std::string(domain_ends[j]));
    }
  EXPECT_EQ(families.size(), 256U);
  EXPECT_EQ(domains.size(), 256U);
}

TEST(SnowflakeKeys, ComeInTheOrderOfTimeFromAFleet) {
  const auto words = words_of(Form::snowflake, 80'000);
  std::set<std::uint64_t> machines;
  std::map<std::uint64_t, std::uint64_t> per_ms;
  std::uint64_t highest_sequence = 0;
  std::uint64_t last_ms = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    ASSERT_EQ(words[i] >> 63, 0U);
    ASSERT_GE(words[i] >> SnowflakeKeys::time_shift, last_ms);
    last_ms = words[i] >> SnowflakeKeys::time_shift;
    machines.insert(words[i] >> SnowflakeKeys::machine_shift & 1023);
    highest_sequence = std::max(highest_sequence, words[i] & 4095);
    ++per_ms[words[i] >> SnowflakeKeys::time_shift];
  }
  EXPECT_EQ(machines.size(), SnowflakeKeys::fleet);
  EXPECT_GT(highest_sequence, 0U);
  EXPECT_LT(highest_sequence, 16U);
  // 8000 ids a second, and unevenly: a Poisson process has a variance of about its mean.
  const double ms = static_cast<double>(per_ms.rbegin()->first - per_ms.begin()->first + 1);
  EXPECT_NEAR(80'000 / ms, 8, 0.05);
  double squares = 0;
  for (const auto& [at, count] : per_ms)
    squares += (static_cast<double>(count) - 8) * (static_cast<double>(count) - 8);
  EXPECT_NEAR(squares / ms, 6, 1);
}

TEST(SnowflakeKeys, MachinesNumberTheirIdsOfAMillisecond) {
  std::map<std::uint64_t, std::uint64_t> next;
  for (const std::uint64_t word : words_of(Form::snowflake, 20'000))
    ASSERT_EQ(word & 4095, next[word >> SnowflakeKeys::machine_shift]++);
}

TEST(ClusteredKeys, HaveRunsOfEveryLength) {
  const auto words = words_of(Form::clustered, 1024 * 1024);
  std::map<std::uint64_t, double> runs;
  std::uint64_t length = 1;
  for (std::size_t i = 1; i <= words.size(); ++i) {
    if (i < words.size() && words[i] == words[i - 1] + 1 && i % 1024 != 0) {
      ++length;
      continue;
    }
    ++runs[length];
    length = 1;
  }
  ASSERT_EQ(runs.size(), 11U);
  for (std::uint64_t power = 2; power <= 1024; power *= 2) EXPECT_NEAR(runs[power], 512, 110);
  EXPECT_NEAR(runs[1], 1024, 200);
}

TEST(Ipv4Keys, LieInFewNetworksOfDifferentSize) {
  constexpr double count = 200'000;
  std::map<std::uint64_t, double> of_8;
  std::set<std::uint64_t> of_16;
  for (const std::uint64_t address : words_of(Form::ipv4, static_cast<std::uint64_t>(count))) {
    ASSERT_EQ(address >> 32, 0U);
    const std::uint64_t octet = address >> 24;
    ASSERT_TRUE(octet != 0 && octet != 10 && octet != 127 && octet < 224) << octet;
    ++of_8[octet];
    of_16.insert(address >> 16);
  }
  EXPECT_EQ(of_8.size(), 221U);
  std::vector<double> sizes;
  for (const auto& [octet, size] : of_8) sizes.push_back(size / count);
  std::sort(sizes.rbegin(), sizes.rend());
  EXPECT_NEAR(sizes[0], 0.039, 0.003);
  double ten = 0;
  for (int i = 0; i < 10; ++i) ten += sizes[static_cast<std::size_t>(i)];
  EXPECT_NEAR(ten, 0.19, 0.01);
  EXPECT_NEAR(static_cast<double>(of_16.size()) / (221 * 256), 0.087, 0.005);
  const KeySpace keys(of_set(Form::ipv4));
  EXPECT_GT(keys.ids(), 110'000'000U);
}

TEST(Ipv4Keys, MoreRecordsThanAddressesAreAnError) {
  Workload workload = of_set(Form::ipv4);
  workload.records = 110'000'000;
  EXPECT_TRUE(validate(workload).ok());
  workload.records = 111'000'000;
  const auto result = validate(workload);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().where, "records");
  EXPECT_NE(result.error().what.find("ipv4 has 110"), std::string::npos) << result.error().what;
  workload.records = 1000;
  workload.key_range = 111'000'000;
  EXPECT_EQ(validate(workload).error().where, "key_range");
}

TEST(KmerKeys, HaveTheCompositionOfAGenome) {
  constexpr std::uint64_t count = 100'000;
  const KeySpace text(of_set(Form::kmer_text));
  double strong = 0;
  double pairs = 0;
  double cg = 0;
  double repeats = 0;
  constexpr std::size_t lead = KmerTextKeys::length - Kmers::unique_bases;
  for (std::uint64_t id = 0; id < count; ++id) {
    const std::string key = text_of(text, id);
    ASSERT_EQ(key.size(), 32U);
    const std::string_view drawn = std::string_view(key).substr(0, lead);
    strong += static_cast<double>(std::count(drawn.begin(), drawn.end(), 'C') +
                                  std::count(drawn.begin(), drawn.end(), 'G'));
    bool repeats_pair = true;
    for (std::size_t i = 1; i < lead; ++i) {
      ++pairs;
      cg += drawn[i - 1] == 'C' && drawn[i] == 'G' ? 1 : 0;
      if (i >= 2) repeats_pair = repeats_pair && drawn[i] == drawn[i - 2];
    }
    repeats += repeats_pair ? 1 : 0;
  }
  EXPECT_NEAR(strong / (count * lead), 0.41, 0.01);
  EXPECT_NEAR(cg / pairs, 0.01, 0.004);  // by chance 0.042
  EXPECT_NEAR(repeats / count, 2.0 / 96, 0.003);
}

TEST(KmerKeys, IntegersAre31Bases) {
  std::uint64_t all = 0;
  for (const std::uint64_t word : words_of(Form::kmer, 10'000)) all |= word;
  EXPECT_EQ(all, (std::uint64_t{1} << 62) - 1);
}

TEST(UuidKeys, AreOfVersion4) {
  const KeySpace text(of_set(Form::uuid));
  const KeySpace binary(of_set(Form::uuid_binary));
  std::array<std::array<int, 16>, 36> digits{};
  for (std::uint64_t id = 0; id < 20'000; ++id) {
    const std::string key = text_of(text, id);
    ASSERT_EQ(key.size(), 36U);
    for (const std::size_t dash : {8U, 13U, 18U, 23U}) ASSERT_EQ(key[dash], '-');
    ASSERT_EQ(key[14], '4');
    ASSERT_NE(std::string("89ab").find(key[19]), std::string::npos);
    for (std::size_t i = 0; i < key.size(); ++i)
      if (const auto at = std::string("0123456789abcdef").find(key[i]); at < 16) ++digits[i][at];
    // The same id has the same bits in both notations.
    std::string packed;
    for (std::size_t i = 0; i < key.size();) {
      if (key[i] == '-') {
        ++i;
        continue;
      }
      unsigned byte = 0;
      std::from_chars(&key[i], &key[i] + 2, byte, 16);
      packed.push_back(static_cast<char>(byte));
      i += 2;
    }
    ASSERT_EQ(packed, text_of(binary, id));
  }
  for (std::size_t i = 0; i < 36; ++i) {
    if (i == 8 || i == 13 || i == 14 || i == 18 || i == 19 || i == 23) continue;
    for (const int count : digits[i]) EXPECT_NEAR(count, 1250, 200) << i;
  }
}

TEST(EmailKeys, HaveZipfianDomainsAndShortNumbers) {
  constexpr std::uint64_t count = 200'000;
  const KeySpace keys(of_set(Form::email));
  std::map<std::string, double> domains;
  double bytes = 0;
  std::size_t longest = 0;
  for (std::uint64_t id = 0; id < count; ++id) {
    const std::string key = text_of(keys, id);
    bytes += static_cast<double>(key.size());
    longest = std::max(longest, key.size());
    ++domains[key.substr(key.find('@') + 1)];
  }
  EXPECT_NEAR(bytes / count, 25, 1);
  EXPECT_LT(longest, 40U);
  EXPECT_EQ(domains.size(), 256U);
  std::vector<double> shares;
  for (const auto& [domain, size] : domains) shares.push_back(size / count);
  std::sort(shares.rbegin(), shares.rend());
  EXPECT_NEAR(shares[0], 0.163, 0.01);
  EXPECT_NEAR(shares[1], 0.082, 0.006);
  EXPECT_NEAR(shares[9], 0.0163, 0.002);
}

TEST(UrlKeys, ShareLongPrefixes) {
  constexpr std::uint64_t count = 100'000;
  const KeySpace keys(of_set(Form::url));
  std::vector<std::string> urls;
  std::map<std::string, double> hosts;
  double bytes = 0;
  std::size_t longest = 0;
  for (std::uint64_t id = 0; id < count; ++id) {
    urls.push_back(text_of(keys, id));
    const std::string& url = urls.back();
    const std::size_t host = url.find("://") + 3;
    bytes += static_cast<double>(url.size());
    longest = std::max(longest, url.size());
    ++hosts[url.substr(host, url.find('/', host) - host)];
  }
  EXPECT_GT(bytes / count, 60);
  EXPECT_LT(bytes / count, 100);
  EXPECT_NEAR(bytes / count, 77, 3);
  EXPECT_LT(longest, 150U);
  std::vector<double> shares;
  for (const auto& [host, size] : hosts) shares.push_back(size / count);
  std::sort(shares.rbegin(), shares.rend());
  EXPECT_GT(hosts.size(), 1800U);
  EXPECT_LE(hosts.size(), 2048U);
  EXPECT_NEAR(shares[0], 0.122, 0.006);
  EXPECT_NEAR(shares[1], 0.061, 0.004);
  std::sort(urls.begin(), urls.end());
  double shared = 0;
  for (std::size_t i = 1; i < urls.size(); ++i) {
    const auto end =
        std::mismatch(urls[i].begin(), urls[i].end(), urls[i - 1].begin(), urls[i - 1].end());
    shared += static_cast<double>(end.first - urls[i].begin());
  }
  // What a key has in common with its neighbour in the order.
  EXPECT_GT(shared / count, 40);
}

TEST(KeySet, LoadsInItsNaturalOrder) {
  for (const Form form : integer_sets) {
    const bool by_time = form == Form::snowflake || form == Form::clustered;
    Workload workload = of_set(form);
    EXPECT_EQ(workload.resolved_load_order(), by_time ? LoadOrder::sequential : LoadOrder::random);
    workload.load_order = by_time ? LoadOrder::random : LoadOrder::sequential;
    EXPECT_EQ(workload.resolved_load_order(), workload.load_order);
  }
  EXPECT_EQ(Workload{}.resolved_load_order(), LoadOrder::random);
}

}  // namespace
}  // namespace perdure::workload

#include "workload/keys.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <unordered_set>

#include "core/rng.h"

namespace perdure::workload {
namespace {

Workload of_keys(const char* keys) {
  Workload workload;
  workload.keys = parse_keys(keys).value();
  return workload;
}

std::string key_of(const KeySpace& keys, std::uint64_t id) {
  std::string key(keys.longest(), '\0');
  key.resize(keys.write(id, key.data()));
  return key;
}

TEST(KeySpace, IntegerKeysAreABijection) {
  for (const char* form : {"mixed", "golden", "sequential"}) {
    const KeySpace keys(of_keys(form));
    Rng rng(1);
    for (int i = 0; i < 50'000; ++i) {
      const std::uint64_t id = rng() >> rng.below(64);
      ASSERT_EQ(keys.id_of(keys.word(id)), id) << form;
      ASSERT_EQ(keys.word(keys.id_of(id)), id) << form;
    }
    ASSERT_EQ(keys.id_of(keys.word(~0ULL)), ~0ULL);
  }
}

TEST(KeySpace, GoldenIsThePublishedHash) {
  const KeySpace keys(of_keys("golden"));
  EXPECT_EQ(keys.word(0), 11400714819323198393ULL);
  EXPECT_EQ(keys.word(1), 2 * 11400714819323198393ULL);
  EXPECT_EQ(KeySpace(of_keys("sequential")).word(41), 41U);
}

TEST(KeySpace, TheSeedKeysTheMix) {
  Workload a;
  Workload b;
  b.seed = 2;
  const KeySpace first(a);
  const KeySpace second(b);
  int equal = 0;
  for (std::uint64_t id = 0; id < 1000; ++id) equal += first.word(id) == second.word(id) ? 1 : 0;
  EXPECT_EQ(equal, 0);
}

TEST(KeySpace, ByteKeysAreUniqueAndDecode) {
  for (const char* form : {"prefixed:user", "prefixed:", "random:8", "random:16", "random:8-40",
                           "random:2048", "random:8-2048", "random:8-2048~72"}) {
    const KeySpace keys(of_keys(form));
    std::unordered_set<std::string> seen;
    Rng rng(3);
    const int ids = keys.longest() > 100 ? 500 : 20'000;
    for (int i = 0; i < ids; ++i) {
      const std::uint64_t id = i % 2 == 0 ? static_cast<std::uint64_t>(i) : keys.absent_id(rng());
      const std::string key = key_of(keys, id);
      ASSERT_LE(key.size(), keys.longest());
      ASSERT_TRUE(seen.insert(key).second) << form;
      ASSERT_EQ(keys.id_of(key), id) << form;
      std::string damaged = key;
      damaged[rng.below(key.size())] ^= 1;
      ASSERT_NE(keys.id_of(damaged), id) << form;
      ASSERT_NE(keys.id_of(key.substr(1)), id) << form;
    }
  }
}

TEST(KeySpace, RandomKeysUseEveryLengthAndByte) {
  const KeySpace keys(of_keys("random:8-24"));
  std::set<std::size_t> lengths;
  std::set<char> bytes;
  for (std::uint64_t id = 0; id < 5'000; ++id) {
    const std::string key = key_of(keys, id);
    lengths.insert(key.size());
    bytes.insert(key.begin(), key.end());
  }
  EXPECT_EQ(lengths.size(), 17U);
  EXPECT_EQ(*lengths.begin(), 8U);
  EXPECT_EQ(*lengths.rbegin(), 24U);
  EXPECT_EQ(bytes.size(), 256U);
}

TEST(KeySpace, RandomLengthsHaveTheMeanAskedFor) {
  struct Case {
    const char* form;
    double mean;
    std::size_t least, most;
  };
  for (const Case& c : {Case{"random:8-25~11", 11, 8, 25}, Case{"random:8-256~21", 21, 8, 256},
                        Case{"random:17-2029~72", 72, 17, 2029}, Case{"random:8-24", 16, 8, 24}}) {
    const KeySpace keys(of_keys(c.form));
    constexpr std::uint64_t count = 20'000;
    std::map<std::size_t, std::uint64_t> lengths;
    double total = 0;
    for (std::uint64_t id = 0; id < count; ++id) {
      const std::size_t length = key_of(keys, id).size();
      ++lengths[length];
      total += static_cast<double>(length);
    }
    EXPECT_NEAR(total / count, c.mean, 0.03 * c.mean) << c.form;
    EXPECT_EQ(lengths.begin()->first, c.least) << c.form;
    EXPECT_LE(lengths.rbegin()->first, c.most) << c.form;
    // Geometric: the median of what exceeds the least is ln 2 of its mean; uniform: all of it.
    std::uint64_t below = 0;
    std::size_t median = 0;
    for (const auto& [length, n] : lengths)
      if ((below += n) >= count / 2) {
        median = length;
        break;
      }
    const double excess = c.mean - static_cast<double>(c.least);
    const double expected = std::strchr(c.form, '~') != nullptr ? 0.693 * excess : excess;
    EXPECT_NEAR(static_cast<double>(median - c.least), expected, 1 + 0.05 * excess) << c.form;
  }
}

TEST(KeyFile, ReadsEveryFormOfLine) {
  const auto lf = KeyFile::parse("b\na\nc\n", "k").value();
  const auto crlf = KeyFile::parse("b\r\na\r\nc\r\n", "k").value();
  const auto open_end = KeyFile::parse("b\na\nc", "k").value();
  for (const auto& keys : {lf, crlf, open_end}) {
    ASSERT_EQ(keys->size(), 3U);
    EXPECT_EQ((*keys)[0], "b");
    EXPECT_EQ((*keys)[2], "c");
    EXPECT_EQ(keys->find("a"), 1U);
    EXPECT_EQ(keys->find("d"), std::nullopt);
    EXPECT_EQ(keys->find(""), std::nullopt);
  }
  const auto empty_key = KeyFile::parse("x\n\ny\n", "k").value();
  EXPECT_EQ(empty_key->size(), 3U);
  EXPECT_EQ(empty_key->find(""), 1U);
  const auto zero = KeyFile::parse(std::string("a\0b\na\n", 6), "k").value();
  EXPECT_EQ((*zero)[0], std::string_view("a\0b", 3));
  EXPECT_TRUE(KeyFile::parse(std::string(2048, 'k') + "\r\n", "k").ok());
}

TEST(KeyFile, NamesTheLineThatIsWrong) {
  const auto duplicate = KeyFile::parse("a\nb\nc\nb\na\n", "keys.txt");
  ASSERT_FALSE(duplicate.ok());
  EXPECT_EQ(duplicate.error().where, "keys.txt:4");
  EXPECT_NE(duplicate.error().what.find("line 2"), std::string::npos);
  const auto too_long = KeyFile::parse("a\n" + std::string(2049, 'x') + "\nb\n", "keys.txt");
  ASSERT_FALSE(too_long.ok());
  EXPECT_EQ(too_long.error().where, "keys.txt:2");
  EXPECT_FALSE(KeyFile::parse("", "keys.txt").ok());
  EXPECT_FALSE(KeyFile::parse("a\r\na\n", "keys.txt").ok());
  EXPECT_EQ(KeyFile::open("/nonexistent/keys").error().code, ErrorCode::not_found);
  EXPECT_EQ(KeyFile::open("/tmp").error().code, ErrorCode::bad_input);
}

TEST(KeySpace, AbsentKeysOfAFileAreNoLines) {
  Workload workload;
  workload.keys.form = Keys::Form::file;
  workload.keys.file_lines =
      KeyFile::parse("a\nab\n\n" + std::string(2048, 'x') + "\n", "k").value();
  const KeySpace keys(workload);
  EXPECT_EQ(keys.ids(), 4U);
  Rng rng(6);
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t id = keys.absent_id(rng());
    const std::string key = key_of(keys, id);
    EXPECT_LE(key.size(), longest_key_bytes);
    EXPECT_EQ(workload.keys.file_lines->find(key), std::nullopt);
    EXPECT_GE(keys.id_of(key).value(), first_absent_id);
  }
  EXPECT_EQ(keys.id_of("ab"), 1U);
  EXPECT_EQ(keys.view(1), "ab");
}

TEST(ValueCodec, DecodesItsOwnAndNothingElse) {
  Workload workload;
  workload.keys = parse_keys("random:16").value();
  for (const std::size_t bytes : {8U, 9U, 64U, 1'001U}) {
    workload.value_bytes = bytes;
    const ValueCodec values(workload);
    Rng rng(7);
    std::string value(bytes, '\0');
    for (std::uint64_t id = 0; id < 500; ++id) {
      const std::uint64_t word = values.word(id, id * 3);
      EXPECT_EQ(values.version(id, word), id * 3);
      EXPECT_GT(values.version(id + 1, word), 1ULL << 32);
      values.write(word, value.data());
      ASSERT_EQ(values.word_of(value), word);
      std::string damaged = value;
      damaged[rng.below(bytes)] ^= 0x10;
      ASSERT_NE(values.word_of(damaged), word);
      ASSERT_EQ(values.word_of(value + "x"), std::nullopt);
      ASSERT_EQ(values.word_of(value.substr(0, bytes - 1)), std::nullopt);
      if (bytes < 16) continue;
      const std::string other_text = value.substr(0, 8) + std::string(bytes - 8, 'z');
      ASSERT_EQ(values.word_of(other_text), std::nullopt);
    }
  }
}

}  // namespace
}  // namespace perdure::workload

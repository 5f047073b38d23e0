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

TEST(KeyFile, SaysWhatAFileIsThatIsNoText) {
  using std::string_literals::operator""s;
  struct Case {
    std::string content;
    const char* says;
  };
  const std::array cases = std::to_array<Case>({
      {"\x1f\x8b\x08 packed", "k:1: is compressed: gzip; gunzip -c k > keys.txt"},
      {"\x28\xb5\x2f\xfd packed", "k:1: is compressed: zstd; zstd -dc k > keys.txt"},
      {"\xfd\x37zXZ\0 packed"s, "k:1: is compressed: xz; xz -dc k > keys.txt"},
      {"\xff\xfe\x31\0\n\0"s, "k:1: is UTF-16; iconv -f UTF-16 -t UTF-8 k > keys.txt"},
      {"1\0\n\0002\0\n\0"s, "UTF-16 without a byte order mark; iconv -f UTF-16LE"},
      {"\0001\0\n\0002\0\n"s, "UTF-16 without a byte order mark; iconv -f UTF-16BE"},
      {"\xef\xbb\xbf"
       "1\n",
       "k:1: starts with a byte order mark (UTF-8)"},
      {"1\r2\r3", "k:1: its lines end in CR alone; tr '\\r' '\\n' < k > keys.txt"},
      {"1\n2\nab\0\x01\x02 cd\n"s, "k:3: is binary: it has zero bytes"},
      {"# YCSB\nrecordcount=1000\n",
       "k:1: is a property file of YCSB, and holds no keys; give "
       "--workload ycsb-a"},
  });
  for (const auto& [content, says] : cases) {
    const auto lines = KeyFile::parse(content, "k");
    ASSERT_FALSE(lines.ok()) << says;
    EXPECT_EQ(lines.error().code, ErrorCode::bad_input);
    EXPECT_NE(lines.error().line().find(says), std::string::npos) << lines.error().line();
    EXPECT_EQ(IntegerFile::parse(content, "k").error().line(), lines.error().line());
  }
  EXPECT_EQ(KeyFile::open("/dev/zero").error().line(),
            "/dev/zero: the key file is a device, a pipe or a socket; write its keys to a file, "
            "and name that");
}

TEST(IntegerFile, ReadsDecimalLinesAndSosd) {
  const std::array<std::uint64_t, 4> words{3, 7, 0, ~std::uint64_t{0}};
  const std::string_view binary(reinterpret_cast<const char*>(words.data()), sizeof words);
  for (const std::string_view content :
       {binary, std::string_view("7\r\n0\r\n18446744073709551615")}) {
    const auto keys = IntegerFile::parse(content, "k");
    ASSERT_TRUE(keys.ok()) << keys.error().line();
    ASSERT_EQ((*keys)->size(), 3U);
    for (std::uint64_t i = 0; i < 3; ++i) {
      EXPECT_EQ((**keys)[i], words[i + 1]);
      EXPECT_EQ((*keys)->find(words[i + 1]), i);
    }
    EXPECT_EQ((*keys)->find(8), std::nullopt);
  }
  EXPECT_NE(KeyFile::parse(std::string(binary), "k").error().line().find("--key-kind integer"),
            std::string::npos);
}

TEST(IntegerFile, NamesTheLineThatIsNoKey) {
  const auto line_of = [](const char* content) {
    return IntegerFile::parse(content, "k").error().line();
  };
  EXPECT_TRUE(line_of("1\n-2\n").starts_with("k:2: the key is negative; keys are 0 to 1844"));
  EXPECT_TRUE(line_of("1\n18446744073709551616\n").starts_with("k:2: the key does not fit"));
  EXPECT_TRUE(line_of("1\n2\n\n").starts_with("k:3: the line is empty; "));
  EXPECT_TRUE(line_of("key\n1\n").starts_with("k:1: the key is no whole number in decimal; "));
  EXPECT_TRUE(line_of("1 \n").starts_with("k:1: the key is no whole number in decimal; "));
  EXPECT_TRUE(line_of("5\n6\n05\n").starts_with("k:3: the key is that of line 1 again; "));
  EXPECT_TRUE(line_of("").starts_with("k: the key file is empty; "));
}

TEST(KeySpace, AbsentIntegersOfAFileAreNotInIt) {
  Workload workload;
  workload.keys.form = Keys::Form::integers;
  std::string content;
  for (int key = 0; key < 100; ++key) content += std::to_string(key * 3) + "\n";
  workload.keys.file_integers = IntegerFile::parse(content, "k").value();
  const KeySpace keys(workload);
  EXPECT_EQ(keys.ids(), 100U);
  EXPECT_EQ(keys.word(5), 15U);
  EXPECT_EQ(keys.id_of(15), 5U);
  Rng rng(6);
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t id = keys.absent_id(rng());
    EXPECT_GE(id, first_absent_id);
    EXPECT_EQ(workload.keys.file_integers->find(keys.word(id)), std::nullopt);
    EXPECT_GE(keys.id_of(keys.word(id)), first_absent_id);
  }
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

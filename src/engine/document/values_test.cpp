#include "engine/document/values.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/document/test_documents.h"

namespace perdure::engine {
namespace {

double random_double(Rng& random) {
  constexpr std::array<double, 12> special = {0.0,
                                              -0.0,
                                              1.5,
                                              -1.5,
                                              9007199254740992.0,
                                              9007199254740994.0,
                                              9223372036854775808.0,
                                              -9223372036854775808.0,
                                              std::numeric_limits<double>::infinity(),
                                              -std::numeric_limits<double>::infinity(),
                                              std::numeric_limits<double>::quiet_NaN(),
                                              5e-324};
  if (random.below(2) == 0) return special[random.below(special.size())];
  return std::ldexp(static_cast<double>(random() >> 11) - 4e15, static_cast<int>(random.below(14)));
}

std::int64_t random_whole(Rng& random) {
  const auto wide = static_cast<std::int64_t>(random() >> random.below(64));
  switch (random.below(4)) {
    case 0:
      return static_cast<std::int64_t>(random.below(5)) - 2;
    case 1:
      return (std::int64_t{1} << 53) + static_cast<std::int64_t>(random.below(7)) - 3;
    case 2:
      return std::numeric_limits<std::int64_t>::max() - static_cast<std::int64_t>(random.below(4));
    default:
      return random.below(2) == 0 ? wide : -wide;
  }
}

std::string random_text(Rng& random) {
  constexpr std::string_view alphabet("a\0\1\xC3\xFF", 5);
  std::string text;
  for (std::uint64_t i = random.below(4); i > 0; --i) text += alphabet[random.below(5)];
  return text;
}

void append_random_scalar(bson_t* out, std::string_view name, Rng& random) {
  const char* key = name.data();
  const int length = static_cast<int>(name.size());
  const std::string text = random_text(random);
  const std::string plain = random.below(2) == 0 ? "p" : "pq";
  bson_oid_t id{};
  id.bytes[random.below(12)] = static_cast<std::uint8_t>(random.below(3));
  const auto small = static_cast<std::int32_t>(random.below(3));
  switch (random.below(19)) {
    case 0:
      bson_append_minkey(out, key, length);
      return;
    case 1:
      bson_append_maxkey(out, key, length);
      return;
    case 2:
      bson_append_null(out, key, length);
      return;
    case 3:
      bson_append_undefined(out, key, length);
      return;
    case 4:
      bson_append_int32(out, key, length, small - 1);
      return;
    case 5:
    case 6:
      bson_append_int64(out, key, length, random_whole(random));
      return;
    case 7:
    case 8:
      bson_append_double(out, key, length, random_double(random));
      return;
    case 9:
      append_text(out, name, text);
      return;
    case 10:
      bson_append_symbol(out, key, length, text.data(), static_cast<int>(text.size()));
      return;
    case 11:
      bson_append_binary(out, key, length, small == 0 ? BSON_SUBTYPE_BINARY : BSON_SUBTYPE_UUID,
                         reinterpret_cast<const std::uint8_t*>(text.data()),
                         static_cast<std::uint32_t>(text.size()));
      return;
    case 12:
      bson_append_oid(out, key, length, &id);
      return;
    case 13:
      bson_append_bool(out, key, length, small != 0);
      return;
    case 14:
      bson_append_date_time(out, key, length, random_whole(random));
      return;
    case 15:
      bson_append_timestamp(out, key, length, static_cast<std::uint32_t>(small),
                            static_cast<std::uint32_t>(random.below(3)));
      return;
    case 16:
      bson_append_regex(out, key, length, plain.c_str(), small == 0 ? "i" : "im");
      return;
    case 17:
      bson_append_code(out, key, length, plain.c_str());
      return;
    default:
      bson_append_dbpointer(out, key, length, small == 0 ? "" : plain.c_str(), &id);
      return;
  }
}

}  // namespace

void append_random_value(bson_t* out, std::string_view name, Rng& random, unsigned depth) {
  switch (depth < 3 ? random.below(20) : 3) {
    case 0: {
      Builder scope;
      append_random_value(scope, "a", random, depth + 1);
      bson_append_code_with_scope(out, name.data(), static_cast<int>(name.size()),
                                  random.below(2) == 0 ? "" : "p", scope);
      return;
    }
    case 1: {
      DocumentBuilder inner(out, name);
      for (std::uint64_t i = random.below(3); i > 0; --i)
        append_random_value(inner, random.below(2) == 0 ? "a" : "ab", random, depth + 1);
      return;
    }
    case 2: {
      ArrayBuilder inner(out, name);
      for (std::uint64_t i = random.below(3); i > 0; --i)
        append_random_value(inner, inner.next(), random, depth + 1);
      return;
    }
    default:
      append_random_scalar(out, name, random);
      return;
  }
}

namespace {

int sign(int order) { return order < 0 ? -1 : order > 0 ? 1 : 0; }

struct Sample {
  std::string bytes;
  std::string encoding;
};

std::vector<Sample> random_samples(std::uint64_t seed, std::size_t count) {
  Rng random(seed);
  std::vector<Sample> samples(count);
  for (Sample& sample : samples) {
    Builder one;
    append_random_value(one, "v", random);
    sample.bytes = one.bytes();
    EXPECT_TRUE(check_document(sample.bytes).ok());
    EXPECT_TRUE(encode(first_value(sample.bytes), sample.encoding));
  }
  return samples;
}

TEST(Values, EncodingsOrderAsTheirValuesDo) {  // V1
  const std::vector<Sample> samples = random_samples(1, 1500);
  for (const Sample& a : samples)
    for (const Sample& b : samples) {
      bool has_decimal = false;
      const int expected = compare(first_value(a.bytes), first_value(b.bytes), has_decimal);
      ASSERT_FALSE(has_decimal);
      ASSERT_EQ(sign(a.encoding.compare(b.encoding)), sign(expected))
          << json_of(a.bytes) << " and " << json_of(b.bytes);
    }
}

TEST(Values, NoEncodingIsAPrefixOfAnother) {  // V2, V3
  const std::vector<Sample> samples = random_samples(2, 1000);
  for (const Sample& a : samples) {
    ASSERT_LT(static_cast<unsigned char>(a.encoding[0]), 0x80);
    for (const Sample& b : samples)
      ASSERT_TRUE(a.encoding == b.encoding || !b.encoding.starts_with(a.encoding))
          << json_of(a.bytes) << " and " << json_of(b.bytes);
  }
}

TEST(Values, OrderOfTypesIsMongoDbs) {
  const std::vector<std::string> ascending = {
      R"({"v": {"$minKey": 1}})",
      R"({"v": null})",
      R"({"v": {"$numberDouble": "NaN"}})",
      R"({"v": {"$numberDouble": "-Infinity"}})",
      R"({"v": -1})",
      R"({"v": 0.5})",
      R"({"v": {"$numberLong": "9007199254740992"}})",
      R"({"v": {"$numberLong": "9007199254740993"}})",
      R"({"v": {"$numberDouble": "9007199254740994.0"}})",
      R"({"v": {"$numberLong": "9223372036854775807"}})",
      R"({"v": {"$numberDouble": "9223372036854775808.0"}})",
      R"({"v": ""})",
      R"({"v": "a"})",
      R"({"v": "a\u0000"})",
      R"({"v": "ab"})",
      R"({"v": {}})",
      R"({"v": {"a": 1}})",
      R"({"v": {"a": 1, "b": 1}})",
      R"({"v": {"a": "x"}})",
      R"({"v": []})",
      R"({"v": [1]})",
      R"({"v": [1, 2]})",
      R"({"v": {"$binary": {"base64": "AA==", "subType": "00"}}})",
      R"({"v": {"$oid": "000000000000000000000001"}})",
      R"({"v": false})",
      R"({"v": true})",
      R"({"v": {"$date": {"$numberLong": "-5"}}})",
      R"({"v": {"$date": {"$numberLong": "5"}}})",
      R"({"v": {"$timestamp": {"t": 1, "i": 2}}})",
      R"({"v": {"$regularExpression": {"pattern": "a", "options": ""}}})",
      R"({"v": {"$maxKey": 1}})"};
  std::string last;
  for (const std::string& json : ascending) {
    const std::string bytes = document(json);
    std::string encoding;
    ASSERT_TRUE(encode(first_value(bytes), encoding));
    EXPECT_LT(last, encoding) << json;
    last = encoding;
  }
}

TEST(Values, NumbersOfDifferentTypesAreEqual) {
  std::string whole;
  std::string fraction;
  std::string negative_zero;
  std::string zero;
  ASSERT_TRUE(encode(first_value(document(R"({"v": 7})")), whole));
  ASSERT_TRUE(encode(first_value(document(R"({"v": 7.0})")), fraction));
  ASSERT_TRUE(encode(first_value(document(R"({"v": -0.0})")), negative_zero));
  ASSERT_TRUE(encode(first_value(document(R"({"v": 0})")), zero));
  EXPECT_EQ(whole, fraction);
  EXPECT_EQ(zero, negative_zero);
}

TEST(Values, DecimalsHaveNoEncodingAnywhere) {
  for (const char* json :
       {R"({"v": {"$numberDecimal": "1"}})", R"({"v": [1, {"$numberDecimal": "1"}]})",
        R"({"v": {"a": {"$numberDecimal": "1"}}})"}) {
    const std::string bytes = document(json);
    std::string encoding;
    EXPECT_FALSE(encode(first_value(bytes), encoding)) << json;
  }
  const std::string decimal = document(R"({"v": {"$numberDecimal": "1"}})");
  const std::string whole = document(R"({"v": 1})");
  bool has_decimal = false;
  (void)compare(first_value(decimal), first_value(whole), has_decimal);
  EXPECT_TRUE(has_decimal);
}

TEST(Values, EndOfPrefixIsJustAboveAllThatBeginWithIt) {
  EXPECT_EQ(end_of_prefix("ab"), "ac");
  EXPECT_EQ(end_of_prefix(std::string("a\xFF")), "b");
}

TEST(Check, RefusesWhatIsNotWhole) {
  const std::string whole =
      document(R"({"a": "text", "b": [1, {"c": true}], "d": {"$code": "f", "$scope": {"x": 1}}})");
  ASSERT_TRUE(check_document(whole).ok());
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(check_document(whole.substr(0, bytes)).ok()) << bytes;
  EXPECT_FALSE(check_document(whole + '\0').ok());
}

TEST(Check, SurvivesAnyChangedByte) {
  const std::string whole = document(
      R"({"a": "text", "b": [1, {"c": true}], "d": {"$code": "f", "$scope": {"x": 1}}, "e": 2.5})");
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (int value = 0; value < 256; ++value) {
      std::string changed = whole;
      changed[i] = static_cast<char>(value);
      if (!check_document(changed).ok()) continue;
      std::string encoding;
      bson_iter_t fields = fields_of(changed);
      while (bson_iter_next(&fields)) (void)encode(fields, encoding);
    }
}

TEST(Check, RefusesDeepNesting) {
  const auto nested = [](unsigned depth) {
    std::string inner("\5\0\0\0\0", 5);
    for (unsigned i = 0; i < depth; ++i) {
      Builder outer;
      append_document(outer, "a", inner);
      inner = outer.bytes();
    }
    return inner;
  };
  EXPECT_TRUE(check_document(nested(max_nesting)).ok());
  EXPECT_FALSE(check_document(nested(max_nesting + 1)).ok());
}

}  // namespace
}  // namespace perdure::engine

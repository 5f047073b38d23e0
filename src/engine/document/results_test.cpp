// Which fields, and in which order.
#include "engine/document/projection.h"
#include "engine/document/sort.h"
#include "engine/document/test_documents.h"

namespace perdure::engine {
namespace {

std::string projected(const char* projection, const char* text) {
  const Answer<Projection> parsed = Projection::parse(document(projection));
  if (!parsed) return name_of(parsed.failure().code);
  std::string out;
  parsed->apply(document(text), out);
  EXPECT_TRUE(check_document(out).ok());
  return json_of(out);
}

std::string json(const char* text) { return json_of(document(text)); }

TEST(Projection, IncludesWhatIsNamedAndTheId) {
  EXPECT_EQ(projected(R"({"a": 1})", R"({"_id": 1, "a": 2, "b": 3})"),
            json(R"({"_id": 1, "a": 2})"));
  EXPECT_EQ(projected(R"({"a": 1, "_id": 0})", R"({"_id": 1, "a": 2, "b": 3})"),
            json(R"({"a": 2})"));
  EXPECT_EQ(projected(R"({"_id": 1})", R"({"_id": 1, "a": 2})"), json(R"({"_id": 1})"));
}

TEST(Projection, ExcludesWhatIsNamed) {
  EXPECT_EQ(projected(R"({"a": 0})", R"({"_id": 1, "a": 2, "b": 3})"),
            json(R"({"_id": 1, "b": 3})"));
  EXPECT_EQ(projected(R"({"_id": 0})", R"({"_id": 1, "a": 2})"), json(R"({"a": 2})"));
}

TEST(Projection, PathsGoIntoDocumentsAndArrays) {
  EXPECT_EQ(projected(R"({"a.b": 1})", R"({"a": {"b": 1, "c": 2}, "d": 1})"),
            json(R"({"a": {"b": 1}})"));
  EXPECT_EQ(projected(R"({"a.b": 1})", R"({"a": [{"b": 1, "c": 2}, 5, {"c": 1}]})"),
            json(R"({"a": [{"b": 1}, {}]})"));
  EXPECT_EQ(projected(R"({"a.b": 0})", R"({"a": [{"b": 1, "c": 2}, 5]})"),
            json(R"({"a": [{"c": 2}, 5]})"));
}

TEST(Projection, RefusesWhatItCannotDo) {
  EXPECT_EQ(projected(R"({"a": 1, "b": 0})", "{}"), "Location31254");
  EXPECT_EQ(projected(R"({"a": {"$slice": 1}})", "{}"), "BadValue");
  EXPECT_EQ(projected(R"({"a": "$b"})", "{}"), "BadValue");
  EXPECT_EQ(projected(R"({"_id.a": 1})", "{}"), "BadValue");
  EXPECT_EQ(projected(R"({"a": 1, "a.b": 1})", "{}"), "BadValue");
  EXPECT_EQ(projected(R"({"a.$": 1})", "{}"), "DollarPrefixedFieldName");
}

std::vector<std::string> sorted(const char* sort, std::uint64_t most,
                                const std::vector<const char*>& documents) {
  const Answer<Sort> parsed = Sort::parse(document(sort));
  EXPECT_TRUE(parsed.ok());
  Sorter sorter(*parsed, most);
  for (const char* text : documents) EXPECT_TRUE(sorter.add(document(text)).ok());
  std::vector<std::string> out;
  for (const std::string& text : sorter.take()) out.push_back(json_of(text));
  return out;
}

TEST(Sort, OrdersBySeveralFields) {
  EXPECT_EQ(sorted(R"({"a": 1, "b": -1})", 0,
                   {R"({"a": 2, "b": 1})", R"({"a": 1, "b": "x"})", R"({"b": 9})",
                    R"({"a": 1, "b": "xy"})"}),
            (std::vector<std::string>{json(R"({"b": 9})"), json(R"({"a": 1, "b": "xy"})"),
                                      json(R"({"a": 1, "b": "x"})"), json(R"({"a": 2, "b": 1})")}));
}

TEST(Sort, LimitKeepsTheFirstInTheOrderTheyCame) {
  EXPECT_EQ(sorted(R"({"a": 1})", 2,
                   {R"({"a": 3})", R"({"a": 1, "n": 1})", R"({"a": 2})", R"({"a": 1, "n": 2})"}),
            (std::vector<std::string>{json(R"({"a": 1, "n": 1})"), json(R"({"a": 1, "n": 2})")}));
}

TEST(Sort, OfArraysTheFirstElementInTheOrderCounts) {
  const std::vector<const char*> documents = {R"({"a": [1, 9]})", R"({"a": 5})", R"({"a": []})",
                                              R"({"a": null})"};
  EXPECT_EQ(sorted(R"({"a": 1})", 0, documents).front(), json(R"({"a": []})"));
  EXPECT_EQ(sorted(R"({"a": -1})", 0, documents).front(), json(R"({"a": [1, 9]})"));
}

TEST(Sort, RefusesToHoldMoreThanItsLimit) {
  const Answer<Sort> sort = Sort::parse(document(R"({"a": 1})"));
  Sorter sorter(*sort, 0);
  Builder large;
  append_text(large, "a", std::string(15U << 20, 'x'));
  std::size_t count = 0;
  Answer<Done> added = Done{};
  while (added.ok() && count < 20) {
    added = sorter.add(std::string(large.bytes()));
    ++count;
  }
  ASSERT_FALSE(added.ok());
  EXPECT_EQ(static_cast<int>(added.failure().code), 292);
}

}  // namespace
}  // namespace perdure::engine

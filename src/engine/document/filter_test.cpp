#include "engine/document/filter.h"

#include "engine/document/test_documents.h"

namespace perdure::engine {
namespace {

bool matches(const char* filter, const char* text) {
  Answer<Filter> parsed = Filter::parse(document(filter));
  if (!parsed) {
    ADD_FAILURE() << filter << ": " << parsed.failure().message;
    return false;
  }
  const Answer<bool> matched = parsed->matches(document(text));
  EXPECT_TRUE(matched.ok());
  return matched.ok() && *matched;
}

Failure refusal_of(const char* filter) {
  Answer<Filter> parsed = Filter::parse(document(filter));
  return parsed.ok() ? Failure{Code::internal_error, "accepted"} : parsed.failure();
}

TEST(Filter, WithoutConditionsMatchesAll) { EXPECT_TRUE(matches("{}", R"({"a": 1})")); }

TEST(Filter, EqualityComparesNumbersByValue) {
  EXPECT_TRUE(matches(R"({"a": 1})", R"({"a": 1.0})"));
  EXPECT_TRUE(matches(R"({"a": 1})", R"({"a": {"$numberLong": "1"}})"));
  EXPECT_FALSE(matches(R"({"a": 1})", R"({"a": "1"})"));
  EXPECT_FALSE(matches(R"({"a": 1})", R"({"a": true})"));
  EXPECT_FALSE(matches(R"({"a": {"$numberLong": "9007199254740993"}})",
                       R"({"a": {"$numberDouble": "9007199254740992.0"}})"));
}

TEST(Filter, EqualityReachesElementsOfArraysAndTheWhole) {
  EXPECT_TRUE(matches(R"({"a": 2})", R"({"a": [1, 2]})"));
  EXPECT_TRUE(matches(R"({"a": [1, 2]})", R"({"a": [1, 2]})"));
  EXPECT_FALSE(matches(R"({"a": [2, 1]})", R"({"a": [1, 2]})"));
  EXPECT_TRUE(matches(R"({"a": [1, 2]})", R"({"a": [[1, 2], 3]})"));
  EXPECT_FALSE(matches(R"({"a": 1})", R"({"a": [[1, 2], 3]})"));
}

TEST(Filter, EmbeddedDocumentsAreEqualFieldByField) {
  EXPECT_TRUE(matches(R"({"a": {"b": 1, "c": 2}})", R"({"a": {"b": 1, "c": 2}})"));
  EXPECT_FALSE(matches(R"({"a": {"b": 1, "c": 2}})", R"({"a": {"c": 2, "b": 1}})"));
  EXPECT_FALSE(matches(R"({"a": {"b": 1}})", R"({"a": {"b": 1, "c": 2}})"));
}

TEST(Filter, PathsGoIntoDocumentsAndArraysOfThem) {
  EXPECT_TRUE(matches(R"({"a.b": 1})", R"({"a": {"b": 1}})"));
  EXPECT_TRUE(matches(R"({"a.b": 2})", R"({"a": [{"b": 1}, {"b": 2}]})"));
  EXPECT_TRUE(matches(R"({"a.1.b": 2})", R"({"a": [{"b": 1}, {"b": 2}]})"));
  EXPECT_FALSE(matches(R"({"a.0.b": 2})", R"({"a": [{"b": 1}, {"b": 2}]})"));
  EXPECT_TRUE(matches(R"({"a.0": 7})", R"({"a": [7, 8]})"));
  EXPECT_TRUE(matches(R"({"a.0": 7})", R"({"a": {"0": 7}})"));
  EXPECT_FALSE(matches(R"({"a.b": 1})", R"({"a": 1})"));
}

TEST(Filter, NullMatchesMissingFields) {
  EXPECT_TRUE(matches(R"({"a": null})", R"({})"));
  EXPECT_TRUE(matches(R"({"a": null})", R"({"a": null})"));
  EXPECT_FALSE(matches(R"({"a": null})", R"({"a": 1})"));
  EXPECT_TRUE(matches(R"({"a.b": null})", R"({"a": 5})"));
  EXPECT_TRUE(matches(R"({"a.b": null})", R"({"a": [{"b": 1}, {}]})"));
  EXPECT_FALSE(matches(R"({"a.b": null})", R"({"a": []})"));
  EXPECT_TRUE(matches(R"({"a": {"$in": [null]}})", R"({})"));
  EXPECT_TRUE(matches(R"({"a": {"$gte": null}})", R"({})"));
  EXPECT_FALSE(matches(R"({"a": {"$gt": null}})", R"({})"));
}

TEST(Filter, ComparisonsStayWithinATypesBracket) {
  EXPECT_TRUE(matches(R"({"a": {"$gt": 1}})", R"({"a": 2})"));
  EXPECT_FALSE(matches(R"({"a": {"$gt": 1}})", R"({"a": "2"})"));
  EXPECT_FALSE(matches(R"({"a": {"$lt": 1}})", R"({})"));
  EXPECT_FALSE(matches(R"({"a": {"$lt": 1}})", R"({"a": null})"));
  EXPECT_TRUE(matches(R"({"a": {"$lt": "b"}})", R"({"a": "a"})"));
  EXPECT_FALSE(matches(R"({"a": {"$lt": 1}})", R"({"a": {"$numberDouble": "NaN"}})"));
  EXPECT_TRUE(matches(R"({"a": {"$gte": {"$numberDouble": "NaN"}}})",
                      R"({"a": {"$numberDouble": "NaN"}})"));
  EXPECT_TRUE(matches(R"({"a": {"$gt": {"$minKey": 1}}})", R"({"a": "x"})"));
  EXPECT_TRUE(matches(R"({"a": {"$lt": {"$maxKey": 1}}})", R"({})"));
}

TEST(Filter, BoundsMayBeMetByDifferentElements) {
  EXPECT_TRUE(matches(R"({"a": {"$gt": 5, "$lt": 3}})", R"({"a": [1, 9]})"));
  EXPECT_FALSE(matches(R"({"a": {"$gt": 5, "$lt": 3}})", R"({"a": 4})"));
}

TEST(Filter, NegationsHoldWhereNothingMatches) {
  EXPECT_TRUE(matches(R"({"a": {"$ne": 1}})", R"({})"));
  EXPECT_FALSE(matches(R"({"a": {"$ne": 1}})", R"({"a": [1, 2]})"));
  EXPECT_TRUE(matches(R"({"a": {"$nin": [1, 2]}})", R"({"a": 3})"));
  EXPECT_FALSE(matches(R"({"a": {"$nin": [1, 2]}})", R"({"a": 2})"));
  EXPECT_TRUE(matches(R"({"a": {"$not": {"$gt": 5}}})", R"({})"));
  EXPECT_FALSE(matches(R"({"a": {"$not": {"$gt": 5}}})", R"({"a": 6})"));
  EXPECT_TRUE(matches(R"({"$nor": [{"a": 1}, {"b": 1}]})", R"({"a": 2})"));
}

TEST(Filter, JoinsConditions) {
  EXPECT_TRUE(matches(R"({"a": 1, "b": {"$in": [2, 3]}})", R"({"a": 1, "b": 3})"));
  EXPECT_FALSE(matches(R"({"a": 1, "b": {"$in": [2, 3]}})", R"({"a": 1, "b": 4})"));
  EXPECT_TRUE(matches(R"({"$or": [{"a": 1}, {"b": 1, "c": 1}]})", R"({"b": 1, "c": 1})"));
  EXPECT_FALSE(matches(R"({"$or": [{"a": 1}, {"b": 1, "c": 1}]})", R"({"b": 1})"));
  EXPECT_FALSE(matches(R"({"$and": [{"a": 1}, {"b": 1}]})", R"({"a": 1})"));
  EXPECT_TRUE(matches(R"({"$and": [{"a": 1}, {"b": 1}]})", R"({"a": 1, "b": 1})"));
}

TEST(Filter, ExistsAsksForTheFieldAlone) {
  EXPECT_TRUE(matches(R"({"a": {"$exists": true}})", R"({"a": null})"));
  EXPECT_TRUE(matches(R"({"a": {"$exists": true}})", R"({"a": []})"));
  EXPECT_FALSE(matches(R"({"a": {"$exists": 1}})", R"({"b": 1})"));
  EXPECT_TRUE(matches(R"({"a": {"$exists": false}})", R"({"b": 1})"));
}

TEST(Filter, NamesTheOperatorThatItDoesNotKnow) {
  for (const char* name : {"$elemMatch", "$size", "$mod", "$all", "$where", "$bitsAllSet"}) {
    const Failure failure = refusal_of((std::string(R"({"a": {")") + name + R"(": 1}})").c_str());
    EXPECT_EQ(failure.code, Code::bad_value);
    EXPECT_NE(failure.message.find(name), std::string::npos) << failure.message;
  }
  EXPECT_NE(refusal_of(R"({"$expr": {}})").message.find("$expr"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"$text": {}})").message.find("$text"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"a": {"$regularExpression": {"pattern": "x", "options": ""}}})")
                .message.find("$regex"),
            std::string::npos);
}

TEST(Filter, RefusesMalformedOperands) {
  for (const char* filter :
       {R"({"$and": []})", R"({"$or": {}})", R"({"$nor": [1]})", R"({"a": {"$in": 1}})",
        R"({"a": {"$not": 1}})", R"({"a": {"$gt": 1, "b": 2}})", R"({"a..b": 1})"})
    EXPECT_NE(refusal_of(filter).message, "accepted") << filter;
}

TEST(Filter, RefusesToCompareDecimals) {
  Answer<Filter> filter = Filter::parse(document(R"({"a": {"$gt": 5}})"));
  ASSERT_TRUE(filter.ok());
  const Answer<bool> matched = filter->matches(document(R"({"a": {"$numberDecimal": "6"}})"));
  ASSERT_FALSE(matched.ok());
  EXPECT_EQ(matched.failure().code, Code::unsupported_format);
}

}  // namespace
}  // namespace perdure::engine

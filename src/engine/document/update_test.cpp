#include "engine/document/update.h"

#include "engine/document/test_documents.h"
#include "engine/store/document_store.h"

namespace perdure::engine {
namespace {

Answer<std::string> applied(const char* update, const char* text) {
  Answer<Update> parsed = Update::parse(document(update));
  if (!parsed) return parsed.failure();
  std::string out;
  const Answer<Done> done = parsed->apply(document(text), out);
  if (!done) return done.failure();
  EXPECT_TRUE(check_document(out).ok());
  return out;
}

void expect_result(const char* update, const char* before, const char* after) {
  const Answer<std::string> out = applied(update, before);
  if (!out.ok()) {
    ADD_FAILURE() << update << ": " << out.failure().message;
    return;
  }
  EXPECT_EQ(json_of(*out), json_of(document(after))) << update;
}

void expect_refusal(const char* update, const char* before, Code code) {
  const Answer<std::string> out = applied(update, before);
  if (out.ok()) {
    ADD_FAILURE() << update << " gave " << json_of(*out);
    return;
  }
  EXPECT_EQ(static_cast<int>(out.failure().code), static_cast<int>(code)) << out.failure().message;
}

std::string made(const char* filter, const char* update) {
  Answer<Filter> parsed_filter = Filter::parse(document(filter));
  Answer<Update> parsed_update = Update::parse(document(update));
  if (!parsed_filter || !parsed_update) return "not parsed";
  std::string out;
  const Answer<Done> done = parsed_update->make(*parsed_filter, out);
  return done.ok() ? json_of(out) : name_of(done.failure().code);
}

TEST(Update, SetReplacesInPlaceAndAppends) {
  expect_result(R"({"$set": {"a": 2, "c": 3}})", R"({"_id": 1, "a": 1, "b": 1})",
                R"({"_id": 1, "a": 2, "b": 1, "c": 3})");
}

TEST(Update, PathsMakeDocumentsAndReachElements) {
  expect_result(R"({"$set": {"a.b.c": 2}})", R"({"_id": 1})",
                R"({"_id": 1, "a": {"b": {"c": 2}}})");
  expect_result(R"({"$set": {"a.x": 1, "a.y": 2}})", R"({"a": {"y": 0}})",
                R"({"a": {"y": 2, "x": 1}})");
  expect_result(R"({"$set": {"a.1": 9, "a.4": 7}})", R"({"a": [1, 2]})",
                R"({"a": [1, 9, null, null, 7]})");
  expect_result(R"({"$set": {"a.0.b": 9}})", R"({"a": [{"b": 1, "c": 2}]})",
                R"({"a": [{"b": 9, "c": 2}]})");
}

TEST(Update, PathsThroughOtherValuesAreRefused) {
  expect_refusal(R"({"$set": {"a.b": 1}})", R"({"a": 5})", Code::path_not_viable);
  expect_refusal(R"({"$set": {"a.b": 1}})", R"({"a": [5]})", Code::path_not_viable);
  expect_refusal(R"({"$set": {"a.2000000": 1}})", R"({"a": [5]})", Code::bad_value);
  expect_result(R"({"$unset": {"a.b": 1}})", R"({"a": 5})", R"({"a": 5})");
}

TEST(Update, UnsetLeavesNullInArrays) {
  expect_result(R"({"$unset": {"a": 1, "x": 1}})", R"({"a": 1, "b": 2})", R"({"b": 2})");
  expect_result(R"({"$unset": {"a.0": 1}})", R"({"a": [1, 2]})", R"({"a": [null, 2]})");
  expect_result(R"({"$unset": {"a.b.c": 1}})", R"({"_id": 1})", R"({"_id": 1})");
}

TEST(Update, IncrementsKeepTypesWhileTheyFit) {
  expect_result(R"({"$inc": {"a": 1, "n": 5}})", R"({"a": 1})", R"({"a": 2, "n": 5})");
  expect_result(R"({"$inc": {"a": 1}})", R"({"a": 2147483647})",
                R"({"a": {"$numberLong": "2147483648"}})");
  expect_result(R"({"$inc": {"a": 0.5}})", R"({"a": 1})", R"({"a": 1.5})");
  expect_refusal(R"({"$inc": {"a": 1}})", R"({"a": {"$numberLong": "9223372036854775807"}})",
                 Code::bad_value);
  expect_refusal(R"({"$inc": {"a": 1}})", R"({"a": "x"})", Code::type_mismatch);
  expect_refusal(R"({"$inc": {"a": "x"}})", R"({"a": 1})", Code::type_mismatch);
}

TEST(Update, ReplacementKeepsTheId) {
  expect_result(R"({"x": 1})", R"({"_id": 7, "a": 1})", R"({"_id": 7, "x": 1})");
  expect_result(R"({"x": 1, "_id": 7})", R"({"_id": 7, "a": 1})", R"({"_id": 7, "x": 1})");
  expect_refusal(R"({"_id": 8, "x": 1})", R"({"_id": 7, "a": 1})", Code::immutable_field);
}

TEST(Update, OperatorsNeverChangeTheId) {
  expect_refusal(R"({"$set": {"_id": 2}})", R"({"_id": 1})", Code::immutable_field);
  expect_refusal(R"({"$unset": {"_id": 1}})", R"({"_id": 1})", Code::immutable_field);
  expect_refusal(R"({"$inc": {"_id": 1}})", R"({"_id": 1})", Code::immutable_field);
  expect_refusal(R"({"$set": {"_id.a": 2}})", R"({"_id": {"a": 1}})", Code::immutable_field);
  expect_result(R"({"$set": {"_id": 1, "a": 2}})", R"({"_id": 1})", R"({"_id": 1, "a": 2})");
}

TEST(Update, ConflictingPathsAreRefused) {
  expect_refusal(R"({"$set": {"a": 1}, "$inc": {"a": 1}})", "{}",
                 Code::conflicting_update_operators);
  expect_refusal(R"({"$set": {"a": 1, "a.b": 1}})", "{}", Code::conflicting_update_operators);
  expect_refusal(R"({"$set": {"a.b": 1, "a": 1}})", "{}", Code::conflicting_update_operators);
}

TEST(Update, NamesTheOperatorThatItDoesNotKnow) {
  for (const char* name : {"$push", "$rename", "$min", "$currentDate", "$addToSet"}) {
    const auto out = applied((std::string(R"({")") + name + R"(": {"a": 1}})").c_str(), "{}");
    ASSERT_FALSE(out.ok());
    EXPECT_NE(out.failure().message.find(name), std::string::npos);
  }
  expect_refusal(R"({"$set": {"a": 1}, "b": 1})", "{}", Code::failed_to_parse);
  expect_refusal(R"({"b": 1, "$set": {"a": 1}})", "{}", Code::failed_to_parse);
  expect_refusal(R"({"$set": {"a.$": 1}})", "{}", Code::dollar_prefixed_field_name);
}

TEST(Update, SetOnInsertHoldsForUpsertsOnly) {
  expect_result(R"({"$setOnInsert": {"a": 1}, "$set": {"b": 1}})", R"({"_id": 1})",
                R"({"_id": 1, "b": 1})");
  EXPECT_EQ(made(R"({"_id": 1})", R"({"$setOnInsert": {"a": 1}, "$set": {"b": 1}})"),
            json_of(document(R"({"_id": 1, "a": 1, "b": 1})")));
}

TEST(Update, UpsertsTakeEqualitiesOfTheFilter) {
  EXPECT_EQ(made(R"({"a": 1, "_id": 7, "b": {"$gt": 1}, "$and": [{"c": {"$eq": 2}}]})",
                 R"({"$inc": {"n": 1}})"),
            json_of(document(R"({"_id": 7, "a": 1, "c": 2, "n": 1})")));
  EXPECT_EQ(made(R"({"a": 1, "_id": 7})", R"({"x": 1})"),
            json_of(document(R"({"_id": 7, "x": 1})")));
  EXPECT_EQ(made(R"({"_id": 7})", R"({"_id": 8})"), "ImmutableField");
  EXPECT_EQ(made(R"({"a": 1, "a.b": 2})", R"({"$set": {"x": 1}})"), "ConflictingUpdateOperators");
}

TEST(Update, MakesAnIdWhereThereIsNone) {
  const std::string out = made(R"({"a": 1})", R"({"$set": {"b": 1}})");
  EXPECT_TRUE(out.starts_with(R"({ "_id" : { "$oid" :)")) << out;
}

TEST(Update, DocumentsStayWithinTheLimit) {
  Builder update;
  {
    DocumentBuilder set(update, "$set");
    append_text(set, "a", std::string(max_document_bytes, 'x'));
  }
  Answer<Update> parsed = Update::parse(update.bytes());
  ASSERT_TRUE(parsed.ok());
  std::string out;
  const Answer<Done> done = parsed->apply(document("{}"), out);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.failure().code, Code::bson_object_too_large);
}

}  // namespace
}  // namespace perdure::engine

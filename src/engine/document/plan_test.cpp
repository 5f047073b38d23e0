#include "engine/document/plan.h"

#include "engine/document/test_engine.h"

namespace perdure::engine {
namespace {

class Plans {
 public:
  Plans() {
    EXPECT_TRUE(engine_.people().create_index({.field = "a"}).ok());
    EXPECT_TRUE(engine_.people().create_index({.field = "b"}).ok());
  }
  [[nodiscard]] Plan plan(const char* filter, const char* sort = "{}") {
    const Answer<Filter> parsed = Filter::parse(document(filter));
    const Answer<Sort> parsed_sort = Sort::parse(document(sort));
    EXPECT_TRUE(parsed.ok() && parsed_sort.ok());
    const Catalog::View view(engine_.parts().catalog);
    return make_plan(*engine_.parts().store, *view.find("test.people"), *parsed, *parsed_sort);
  }
  /// The field of the index that a plan takes; empty: keys of documents.
  [[nodiscard]] std::string field_for(const char* filter, const char* sort = "{}") {
    const Plan made = plan(filter, sort);
    return made.index ? made.index->path.text() : "";
  }
  EngineInImage& engine() noexcept { return engine_; }

 private:
  EngineInImage engine_;
};

TEST(Plan, IdsAreLookedUpOneByOne) {
  Plans plans;
  EXPECT_TRUE(plans.plan(R"({"_id": 5, "a": 1})").is_points);
  EXPECT_EQ(plans.plan(R"({"_id": {"$in": [7, 5, 7]}})").ranges.size(), 2U);
  EXPECT_TRUE(plans.plan(R"({"_id": {"$in": []}})").ranges.empty());
  EXPECT_FALSE(plans.plan(R"({"_id": null})").is_points);
  EXPECT_FALSE(plans.plan(R"({"_id": {"$gt": 5}})").is_points);
}

TEST(Plan, PrefersEqualityToListsAndThoseToRanges) {
  Plans plans;
  EXPECT_EQ(plans.field_for(R"({"a": {"$gt": 1}, "b": 2})"), "b");
  EXPECT_EQ(plans.field_for(R"({"a": {"$in": [1, 2]}, "b": {"$gt": 2}})"), "a");
  EXPECT_EQ(plans.field_for(R"({"_id": {"$gt": 1}, "b": 2})"), "b");
  EXPECT_EQ(plans.field_for(R"({"c": 1})"), "");
  EXPECT_EQ(plans.field_for(R"({"$or": [{"a": 1}, {"b": 1}]})"), "");
  EXPECT_EQ(plans.field_for(R"({"$and": [{"a": 1}]})"), "a");
  EXPECT_EQ(plans.field_for(R"({"a": {"$ne": 1}})"), "");
}

TEST(Plan, JoinsBoundsWhereNoDocumentHasSeveralValues) {
  Plans plans;
  const char* const filter = R"({"a": {"$gte": 3, "$lt": 5}})";
  const auto holds = [](const Plan& plan, const char* value) {
    std::string key = index_prefix(plan.collection, plan.index->number);
    EXPECT_TRUE(encode(first_value(document(value)), key));
    return plan.ranges.front().contains(key);
  };
  const Plan joined = plans.plan(filter);
  EXPECT_FALSE(holds(joined, R"({"v": 2})"));
  EXPECT_TRUE(holds(joined, R"({"v": 3})"));
  EXPECT_TRUE(holds(joined, R"({"v": 4.9})"));
  EXPECT_FALSE(holds(joined, R"({"v": 5})"));
  EXPECT_TRUE(plans.plan(R"({"a": {"$gte": 5, "$lt": 3}})").ranges.empty());
  plans.engine().insert(R"({"a": [1, 9]})");
  EXPECT_TRUE(holds(plans.plan(filter), R"({"v": 9})"));
}

TEST(Plan, TakesTheOrderOfAnIndexUnlessItIsMultikey) {
  Plans plans;
  EXPECT_TRUE(plans.plan("{}", R"({"a": 1})").is_sorted);
  EXPECT_EQ(plans.field_for("{}", R"({"a": 1})"), "a");
  EXPECT_TRUE(plans.plan("{}", R"({"_id": 1, "a": -1})").is_sorted);
  EXPECT_FALSE(plans.plan("{}", R"({"a": -1})").is_sorted);
  EXPECT_FALSE(plans.plan("{}", R"({"a": 1, "b": 1})").is_sorted);
  EXPECT_FALSE(plans.plan(R"({"b": {"$gt": 1}})", R"({"a": 1})").is_sorted);
  EXPECT_TRUE(plans.plan(R"({"_id": 5})", R"({"b": -1})").is_sorted);
  plans.engine().insert(R"({"a": [1, 9]})");
  EXPECT_FALSE(plans.plan("{}", R"({"a": 1})").is_sorted);
}

TEST(Plan, DoesNotUseAnIndexThatIsNotReady) {
  Plans plans;
  CollectionInfo collection;
  {
    const Catalog::View view(plans.engine().parts().catalog);
    collection = *view.find("test.people");
  }
  for (const auto state : {IndexInfo::State::building, IndexInfo::State::dropping}) {
    collection.indexes[0].state = state;
    ASSERT_TRUE(plans.engine().parts().catalog.save(collection).ok());
    EXPECT_EQ(plans.field_for(R"({"a": 1})"), "");
  }
}

}  // namespace
}  // namespace perdure::engine

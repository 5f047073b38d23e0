// aggregate: only pipelines that count, which is what drivers send for count_documents:
// $match ..., $skip, $limit, then {$group: {_id: 1, n: {$sum: 1}}} or {$count: "n"}.
#include <limits>
#include <optional>

#include "server/mongo/command.h"

namespace perdure::server::mongo {
namespace {

struct Counting {
  std::vector<std::string_view> filters;
  std::uint64_t skip = 0;
  std::uint64_t limit = 0;
  bool is_bounded = false;  ///< there was a $skip or a $limit
  std::string field;        ///< of the result
  std::optional<engine::Value> group{};
};

Failure unsupported_stage(std::string_view name) {
  return {Code::bad_value, "the pipeline stage " + std::string(name) +
                               " is not supported here; only $match, $skip and $limit that lead to "
                               "$count or to $group by a constant with $sum: 1 are"};
}

/// {_id: a constant, name: {$sum: 1}}
bool read_group(std::string_view group, Counting& counting) {
  bson_iter_t field = engine::fields_of(group);
  while (bson_iter_next(&field)) {
    if (engine::name_of(field) == "_id") {
      const bool is_constant = !engine::is_document(field) && !engine::is_array(field) &&
                               !engine::text_of(field).starts_with('$');
      if (!is_constant) return false;
      counting.group = engine::Value{field};
      continue;
    }
    if (!counting.field.empty() || !engine::is_document(field)) return false;
    bson_iter_t sum = engine::fields_of(field);
    std::int64_t step = 0;
    if (!bson_iter_next(&sum) || engine::name_of(sum) != "$sum" || !engine::as_whole(sum, step) ||
        step != 1 || bson_iter_next(&sum))
      return false;
    counting.field = engine::name_of(field);
  }
  return counting.group.has_value() && !counting.field.empty();
}

Answer<Done> read_stage(const bson_iter_t& stage, Counting& counting) {
  const std::string_view name = engine::name_of(stage);
  if (!counting.field.empty()) return unsupported_stage(name);
  std::int64_t number = 0;
  if (name == "$match" && engine::is_document(stage) && !counting.is_bounded) {
    counting.filters.push_back(engine::bytes_of(stage));
  } else if (name == "$skip" && !counting.is_bounded && engine::as_whole(stage, number) &&
             number >= 0) {
    counting.skip = static_cast<std::uint64_t>(number);
    counting.is_bounded = true;
  } else if (name == "$limit" && counting.limit == 0 && engine::as_whole(stage, number) &&
             number > 0) {
    counting.limit = static_cast<std::uint64_t>(number);
    counting.is_bounded = true;
  } else if (name == "$count" && bson_iter_type(&stage) == BSON_TYPE_UTF8 &&
             !engine::text_of(stage).empty()) {
    counting.field = engine::text_of(stage);
  } else if (name != "$group" || !engine::is_document(stage) ||
             !read_group(engine::bytes_of(stage), counting)) {
    return unsupported_stage(name);
  }
  return Done{};
}

Answer<Counting> read_pipeline(const Call& call) {
  Counting counting;
  bson_iter_t pipeline;
  if (!engine::find_field(call.body(), "pipeline", pipeline) || !engine::is_array(pipeline))
    return {Code::type_mismatch, "'aggregate' needs an array 'pipeline'"};
  bson_iter_t element = engine::fields_of(pipeline);
  while (bson_iter_next(&element)) {
    bson_iter_t stage;
    if (!engine::is_document(element) ||
        (stage = engine::fields_of(element), !bson_iter_next(&stage)))
      return {Code::failed_to_parse, "a pipeline stage must be a document with one field"};
    if (Answer<Done> read = read_stage(stage, counting); !read) return read.failure();
    if (bson_iter_next(&stage))
      return {Code::failed_to_parse, "a pipeline stage must be a document with one field"};
  }
  if (counting.field.empty()) return unsupported_stage("(end)");
  return counting;
}

std::string joined(const std::vector<std::string_view>& filters) {
  engine::Builder filter;
  if (filters.empty()) return {};
  {
    engine::ArrayBuilder all(filter, "$and");
    for (const std::string_view one : filters) engine::append_document(all, all.next(), one);
  }
  return std::string(filter.bytes());
}

}  // namespace

Answer<Done> run_aggregate(Call& call) {
  if (auto checked =
          call.check_options({"pipeline", "cursor", "allowDiskUse", "bypassDocumentValidation"});
      !checked)
    return checked;
  const Answer<std::string> name = call.collection_name();
  if (!name) return name.failure();
  const Answer<Counting> counting = read_pipeline(call);
  if (!counting) return counting.failure();
  const Answer<std::uint64_t> count = call.engine().collection(*name).count(
      joined(counting->filters), counting->skip, counting->limit);
  if (!count) return count.failure();
  std::vector<std::string> results;
  if (*count != 0) {
    engine::Builder one;
    if (counting->group) engine::append_value(one, "_id", counting->group->at);
    if (*count <= std::numeric_limits<std::int32_t>::max())
      engine::append_int32(one, counting->field, static_cast<std::int32_t>(*count));
    else
      engine::append_int64(one, counting->field, static_cast<std::int64_t>(*count));
    results.emplace_back(one.bytes());
  }
  reply_with_list(call, *name, results);
  return Done{};
}

}  // namespace perdure::server::mongo

#include <algorithm>
#include <limits>

#include "server/mongo/command.h"

namespace perdure::server::mongo {
namespace {

/// Options that are accepted only while they are false, because true would change the answer.
Answer<Done> check_false(const Call& call, std::initializer_list<std::string_view> options) {
  for (const std::string_view option : options)
    if (call.flag(option))
      return {Code::unknown_field, "'" + std::string(call.name) +
                                       "' does not support the option '" + std::string(option) +
                                       "'"};
  return Done{};
}

/// A whole number that must not be negative.
Answer<std::uint64_t> count_option(const Call& call, std::string_view option,
                                   std::int64_t otherwise) {
  const Answer<std::int64_t> value = call.number(option, otherwise);
  if (!value) return value.failure();
  if (*value < 0) return {Code::bad_value, "'" + std::string(option) + "' must not be negative"};
  return static_cast<std::uint64_t>(*value);
}

std::size_t as_batch(std::uint64_t documents) {
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(documents, std::numeric_limits<std::size_t>::max()));
}

Answer<engine::FindOptions> read_find(const Call& call) {
  engine::FindOptions options;
  for (auto [option, part] :
       {std::pair{"filter", &options.filter}, std::pair{"projection", &options.projection},
        std::pair{"sort", &options.sort}}) {
    Answer<std::string> document = call.document(option);
    if (!document) return document.failure();
    *part = std::move(*document);
  }
  const Answer<std::uint64_t> skip = count_option(call, "skip", 0);
  if (!skip) return skip.failure();
  const Answer<std::uint64_t> limit = count_option(call, "limit", 0);
  if (!limit) return limit.failure();
  options.skip = *skip;
  options.limit = *limit;
  return options;
}

}  // namespace

Answer<Done> run_find(Call& call) {
  if (auto checked = call.check_options({"filter", "projection", "sort", "skip", "limit",
                                         "batchSize", "singleBatch", "noCursorTimeout",
                                         "allowPartialResults", "allowDiskUse", "tailable",
                                         "awaitData", "returnKey", "showRecordId", "oplogReplay"});
      !checked)
    return checked;
  if (auto checked = check_false(call, {"tailable", "awaitData", "returnKey", "showRecordId"});
      !checked)
    return checked;
  const Answer<std::string> name = call.collection_name();
  if (!name) return name.failure();
  const Answer<engine::FindOptions> options = read_find(call);
  if (!options) return options.failure();
  const Answer<std::uint64_t> batch = count_option(call, "batchSize", first_batch_documents);
  if (!batch) return batch.failure();
  Answer<engine::Cursor> cursor = call.engine().collection(*name).find(*options);
  if (!cursor) return cursor.failure();
  return reply_with_cursor(call, std::move(*cursor), *name, as_batch(*batch),
                           call.flag("singleBatch"));
}

Answer<Done> run_get_more(Call& call) {
  if (auto checked = call.check_options({"collection", "batchSize"}); !checked) return checked;
  const Answer<std::int64_t> id = call.number(call.name, 0);
  if (!id) return id.failure();
  bson_iter_t field;
  if (!engine::find_field(call.body(), "collection", field) ||
      bson_iter_type(&field) != BSON_TYPE_UTF8)
    return {Code::failed_to_parse, "'getMore' needs the option 'collection'"};
  const std::string name = std::string(call.database) + '.' + std::string(engine::text_of(field));
  const Answer<std::uint64_t> most = count_option(call, "batchSize", 0);
  if (!most) return most.failure();
  std::optional<CursorTable::Item> item = call.service.cursors.take(*id, name);
  if (!item) return {Code::cursor_not_found, "cursor id " + std::to_string(*id) + " not found"};
  const std::size_t wanted = *most != 0 ? as_batch(*most) : std::numeric_limits<std::size_t>::max();
  const Answer<std::vector<std::string>> batch = item->cursor.next_batch(wanted, batch_bytes);
  if (!batch) return batch.failure();
  engine::DocumentBuilder part(call.reply, "cursor");
  {
    engine::ArrayBuilder documents(part, "nextBatch");
    for (const std::string& document : *batch)
      engine::append_document(documents, documents.next(), document);
  }
  const bool goes_on = !item->cursor.is_exhausted();
  if (goes_on) call.service.cursors.put_back(*id, std::move(*item));
  engine::append_int64(part, "id", goes_on ? *id : 0);
  engine::append_text(part, "ns", name);
  return Done{};
}

Answer<Done> run_kill_cursors(Call& call) {
  if (auto checked = call.check_options({"cursors"}); !checked) return checked;
  bson_iter_t field;
  if (!engine::find_field(call.body(), "cursors", field) || !engine::is_array(field))
    return {Code::failed_to_parse, "'killCursors' needs an array 'cursors'"};
  std::vector<std::int64_t> killed;
  std::vector<std::int64_t> unknown;
  bson_iter_t element = engine::fields_of(field);
  while (bson_iter_next(&element)) {
    std::int64_t id = 0;
    if (!engine::as_whole(element, id))
      return {Code::type_mismatch, "an id of a cursor is no whole number"};
    (call.service.cursors.remove(id) ? killed : unknown).push_back(id);
  }
  const auto append_ids = [&](std::string_view name, const std::vector<std::int64_t>& ids) {
    engine::ArrayBuilder list(call.reply, name);
    for (const std::int64_t id : ids) engine::append_int64(list, list.next(), id);
  };
  append_ids("cursorsKilled", killed);
  append_ids("cursorsNotFound", unknown);
  append_ids("cursorsAlive", {});
  append_ids("cursorsUnknown", {});
  return Done{};
}

Answer<Done> run_count(Call& call) {
  if (auto checked = call.check_options({"query", "limit", "skip"}); !checked) return checked;
  const Answer<std::string> name = call.collection_name();
  if (!name) return name.failure();
  const Answer<std::string> filter = call.document("query");
  if (!filter) return filter.failure();
  const Answer<std::uint64_t> skip = count_option(call, "skip", 0);
  if (!skip) return skip.failure();
  const Answer<std::int64_t> limit = call.number("limit", 0);
  if (!limit) return limit.failure();
  const auto most =
      static_cast<std::uint64_t>(*limit < 0 ? -(*limit + 1) : *limit) + (*limit < 0 ? 1U : 0U);
  const Answer<std::uint64_t> count = call.engine().collection(*name).count(*filter, *skip, most);
  if (!count) return count.failure();
  if (*count <= std::numeric_limits<std::int32_t>::max())
    engine::append_int32(call.reply, "n", static_cast<std::int32_t>(*count));
  else
    engine::append_int64(call.reply, "n", static_cast<std::int64_t>(*count));
  return Done{};
}

}  // namespace perdure::server::mongo

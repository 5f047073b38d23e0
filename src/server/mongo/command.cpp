#include "server/mongo/command.h"

#include <algorithm>

namespace perdure::server::mongo {
namespace {

constexpr std::array commands = {
    Command{"hello", run_hello, true},
    Command{"isMaster", run_is_master, true},
    Command{"ismaster", run_is_master, true},
    Command{"buildInfo", run_build_info, true},
    Command{"buildinfo", run_build_info, true},
    Command{"saslStart", run_sasl_start, true},
    Command{"saslContinue", run_sasl_continue, true},
    Command{"ping", run_ping},
    Command{"insert", run_insert},
    Command{"find", run_find},
    Command{"getMore", run_get_more},
    Command{"killCursors", run_kill_cursors},
    Command{"update", run_update},
    Command{"delete", run_delete},
    Command{"count", run_count},
    Command{"aggregate", run_aggregate},
    Command{"createIndexes", run_create_indexes},
    Command{"listIndexes", run_list_indexes},
    Command{"dropIndexes", run_drop_indexes},
    Command{"listCollections", run_list_collections},
    Command{"listDatabases", run_list_databases},
    Command{"drop", run_drop},
    Command{"dropDatabase", run_drop_database},
    Command{"collStats", run_collection_stats},
    Command{"collstats", run_collection_stats},
    Command{"dbStats", run_database_stats},
    Command{"dbstats", run_database_stats},
    Command{"serverStatus", run_server_status},
    Command{"endSessions", run_end_sessions},
};

/// Of every command: they change no answer here. A write is durable whatever its concern asks for,
/// and a read sees it.
constexpr std::array<std::string_view, 12> common_options = {"$db",
                                                             "lsid",
                                                             "$clusterTime",
                                                             "$readPreference",
                                                             "readConcern",
                                                             "writeConcern",
                                                             "maxTimeMS",
                                                             "comment",
                                                             "apiVersion",
                                                             "apiStrict",
                                                             "apiDeprecationErrors",
                                                             "hint"};
constexpr std::array<std::string_view, 4> transaction_options = {"txnNumber", "startTransaction",
                                                                 "autocommit", "stmtId"};

Failure wrong_type(std::string_view option) {
  return {Code::type_mismatch, "the option '" + std::string(option) + "' has the wrong type"};
}

}  // namespace

const Command* find_command(std::string_view name) {
  const auto* found = std::ranges::find(commands, name, &Command::name);
  return found != commands.end() ? found : nullptr;
}

Answer<Done> Call::check_options(std::initializer_list<std::string_view> known) const {
  bson_iter_t field = engine::fields_of(body());
  (void)bson_iter_next(&field);  // the command itself
  while (bson_iter_next(&field)) {
    const std::string_view option = engine::name_of(field);
    if (std::ranges::find(transaction_options, option) != transaction_options.end())
      return {Code::illegal_operation, "transactions and retryable writes are not supported ('" +
                                           std::string(option) + "')"};
    if (std::ranges::find(common_options, option) == common_options.end() &&
        std::ranges::find(known, option) == known.end())
      return {Code::unknown_field, "'" + std::string(name) + "' does not support the option '" +
                                       std::string(option) + "'"};
  }
  return Done{};
}

Answer<std::string> Call::collection_name() const {
  bson_iter_t field = engine::fields_of(body());
  if (!bson_iter_next(&field) || bson_iter_type(&field) != BSON_TYPE_UTF8)
    return {Code::bad_value, "'" + std::string(name) + "' needs the name of a collection"};
  return std::string(database) + '.' + std::string(engine::text_of(field));
}

Answer<std::int64_t> Call::number(std::string_view option, std::int64_t otherwise) const {
  bson_iter_t field;
  if (!engine::find_field(body(), option, field)) return otherwise;
  std::int64_t value = 0;
  if (!engine::as_whole(field, value)) return wrong_type(option);
  return value;
}

bool Call::flag(std::string_view option, bool otherwise) const {
  bson_iter_t field;
  return engine::find_field(body(), option, field) ? engine::is_truthy(field) : otherwise;
}

Answer<std::string> Call::document(std::string_view option) const {
  bson_iter_t field;
  if (!engine::find_field(body(), option, field) || bson_iter_type(&field) == BSON_TYPE_NULL)
    return std::string();
  if (!engine::is_document(field)) return wrong_type(option);
  return std::string(engine::bytes_of(field));
}

Answer<std::vector<std::string_view>> Call::documents(std::string_view option) const {
  std::vector<std::string_view> found;
  bson_iter_t field;
  if (engine::find_field(body(), option, field)) {
    if (!engine::is_array(field)) return wrong_type(option);
    bson_iter_t element = engine::fields_of(field);
    while (bson_iter_next(&element)) {
      if (!engine::is_document(element)) return wrong_type(option);
      found.push_back(engine::bytes_of(element));
    }
  }
  for (const DocumentSequence& sequence : request.sequences) {
    if (sequence.name != option)
      return {Code::unknown_field, "'" + std::string(name) + "' does not support the option '" +
                                       std::string(sequence.name) + "'"};
    found.insert(found.end(), sequence.documents.begin(), sequence.documents.end());
  }
  if (found.empty() || static_cast<std::int64_t>(found.size()) > max_batch_writes)
    return {Code::invalid_length, "'" + std::string(option) + "' must have 1 to " +
                                      std::to_string(max_batch_writes) + " documents, not " +
                                      std::to_string(found.size())};
  return found;
}

void append_failure(bson_t* out, const Failure& failure) {
  engine::append_text(out, "errmsg", failure.message);
  engine::append_int32(out, "code", static_cast<std::int32_t>(failure.code));
  engine::append_text(out, "codeName", engine::name_of(failure.code));
}

Answer<Done> reply_with_cursor(Call& call, engine::Cursor cursor, const std::string& name,
                               std::size_t most, bool keeps_none) {
  Answer<std::vector<std::string>> batch = cursor.next_batch(most, batch_bytes);
  if (!batch) return batch.failure();
  if (keeps_none)
    if (Answer<Done> whole = cursor.check_whole(); !whole) return whole;
  engine::DocumentBuilder part(call.reply, "cursor");
  {
    engine::ArrayBuilder documents(part, "firstBatch");
    for (const std::string& document : *batch)
      engine::append_document(documents, documents.next(), document);
  }
  std::int64_t id = 0;
  if (!keeps_none && !cursor.is_exhausted())
    id = call.service.cursors.add({std::move(cursor), name});
  engine::append_int64(part, "id", id);
  engine::append_text(part, "ns", name);
  return Done{};
}

void reply_with_list(Call& call, const std::string& name, std::span<const std::string> documents) {
  engine::DocumentBuilder part(call.reply, "cursor");
  {
    engine::ArrayBuilder batch(part, "firstBatch");
    for (const std::string& document : documents)
      engine::append_document(batch, batch.next(), document);
  }
  engine::append_int64(part, "id", 0);
  engine::append_text(part, "ns", name);
}

}  // namespace perdure::server::mongo

#include "server/mongo/command.h"

namespace perdure::server::mongo {
namespace {

/// {index, code, errmsg} of the writes that failed.
class WriteErrors {
 public:
  explicit WriteErrors(bool ordered) : ordered_(ordered) {}

  /// False: the rest is not to be executed.
  bool add(std::int32_t index, const Failure& failure) {
    engine::Builder one;
    engine::append_int32(one, "index", index);
    message_bytes_ += failure.message.size();
    const bool is_full = message_bytes_ > max_message_bytes;
    append_failure(one, is_full ? Failure{failure.code, ""} : failure);
    errors_.emplace_back(one.bytes());
    return !ordered_;
  }
  void append_to(bson_t* reply) const {
    if (errors_.empty()) return;
    engine::ArrayBuilder list(reply, "writeErrors");
    for (const std::string& error : errors_) engine::append_document(list, list.next(), error);
  }

 private:
  /// As MongoDB: the messages of later errors are left out, so that a reply fits into a frame.
  static constexpr std::size_t max_message_bytes = 1U << 20;

  bool ordered_;
  std::size_t message_bytes_ = 0;
  std::vector<std::string> errors_;
};

std::int32_t as_count(std::uint64_t count) { return static_cast<std::int32_t>(count); }

/// One element of `updates` or `deletes`.
struct Statement {
  std::string_view filter;
  std::string_view update;
  bool many = false;
  bool upsert = false;
};

Failure malformed(std::string_view what) {
  return {Code::failed_to_parse, "'" + std::string(what) + "' is missing or has the wrong type"};
}

bool is_empty_array(const bson_iter_t& field) {
  if (!engine::is_array(field)) return false;
  bson_iter_t element = engine::fields_of(field);
  return !bson_iter_next(&element);
}

Answer<Statement> read_update(std::string_view document) {
  Statement statement;
  bson_iter_t field = engine::fields_of(document);
  while (bson_iter_next(&field)) {
    const std::string_view name = engine::name_of(field);
    if (name == "q" && engine::is_document(field))
      statement.filter = engine::bytes_of(field);
    else if (name == "u" && engine::is_document(field))
      statement.update = engine::bytes_of(field);
    else if (name == "u" && engine::is_array(field))
      return {Code::failed_to_parse, "an update by a pipeline is not supported"};
    else if (name == "multi")
      statement.many = engine::is_truthy(field);
    else if (name == "upsert")
      statement.upsert = engine::is_truthy(field);
    else if (name != "hint" && !(name == "arrayFilters" && is_empty_array(field)))
      return {Code::unknown_field,
              "'update' does not support the option '" + std::string(name) + "'"};
  }
  if (statement.filter.empty()) return malformed("q");
  if (statement.update.empty()) return malformed("u");
  return statement;
}

Answer<Statement> read_delete(std::string_view document) {
  Statement statement;
  bool has_limit = false;
  bson_iter_t field = engine::fields_of(document);
  while (bson_iter_next(&field)) {
    const std::string_view name = engine::name_of(field);
    std::int64_t limit = 0;
    if (name == "q" && engine::is_document(field)) {
      statement.filter = engine::bytes_of(field);
    } else if (name == "limit") {
      if (!engine::as_whole(field, limit) || limit < 0 || limit > 1)
        return {Code::failed_to_parse, "the limit of a delete must be 0 or 1"};
      statement.many = limit == 0;
      has_limit = true;
    } else if (name != "hint") {
      return {Code::unknown_field,
              "'delete' does not support the option '" + std::string(name) + "'"};
    }
  }
  if (statement.filter.empty()) return malformed("q");
  if (!has_limit) return malformed("limit");
  return statement;
}

}  // namespace

Answer<Done> run_insert(Call& call) {
  if (auto checked = call.check_options({"documents", "ordered", "bypassDocumentValidation"});
      !checked)
    return checked;
  const Answer<std::string> name = call.collection_name();
  if (!name) return name.failure();
  const auto documents = call.documents("documents");
  if (!documents) return documents.failure();
  engine::Collection collection = call.engine().collection(*name);
  WriteErrors errors(call.flag("ordered", true));
  std::uint64_t inserted = 0;
  std::int32_t index = 0;
  for (const std::string_view document : *documents) {
    const Answer<Done> done = collection.insert_checked(document);
    if (done)
      ++inserted;
    else if (!errors.add(index, done.failure()))
      break;
    ++index;
  }
  engine::append_int32(call.reply, "n", as_count(inserted));
  errors.append_to(call.reply);
  return Done{};
}

Answer<Done> run_update(Call& call) {
  if (auto checked = call.check_options({"updates", "ordered", "bypassDocumentValidation"});
      !checked)
    return checked;
  const Answer<std::string> name = call.collection_name();
  if (!name) return name.failure();
  const auto documents = call.documents("updates");
  if (!documents) return documents.failure();
  engine::Collection collection = call.engine().collection(*name);
  WriteErrors errors(call.flag("ordered", true));
  engine::UpdateResult total;
  std::vector<std::string> upserted;
  std::int32_t index = -1;
  for (const std::string_view document : *documents) {
    ++index;
    const Answer<Statement> statement = read_update(document);
    if (!statement) return statement.failure();
    const Answer<engine::UpdateResult> result =
        collection.update(statement->filter, statement->update,
                          {.many = statement->many, .upsert = statement->upsert});
    if (!result) {
      if (!errors.add(index, result.failure())) break;
      continue;
    }
    total.matched += result->matched + (result->upserted ? 1 : 0);
    total.modified += result->modified;
    if (!result->upserted) continue;
    engine::Builder one;
    engine::append_int32(one, "index", index);
    bson_iter_t id;
    if (engine::find_field(*result->upserted, "_id", id)) engine::append_value(one, "_id", id);
    upserted.emplace_back(one.bytes());
  }
  engine::append_int32(call.reply, "n", as_count(total.matched));
  engine::append_int32(call.reply, "nModified", as_count(total.modified));
  if (!upserted.empty()) {
    engine::ArrayBuilder list(call.reply, "upserted");
    for (const std::string& one : upserted) engine::append_document(list, list.next(), one);
  }
  errors.append_to(call.reply);
  return Done{};
}

Answer<Done> run_delete(Call& call) {
  if (auto checked = call.check_options({"deletes", "ordered"}); !checked) return checked;
  const Answer<std::string> name = call.collection_name();
  if (!name) return name.failure();
  const auto documents = call.documents("deletes");
  if (!documents) return documents.failure();
  engine::Collection collection = call.engine().collection(*name);
  WriteErrors errors(call.flag("ordered", true));
  std::uint64_t removed = 0;
  std::int32_t index = -1;
  for (const std::string_view document : *documents) {
    ++index;
    const Answer<Statement> statement = read_delete(document);
    if (!statement) return statement.failure();
    const Answer<std::uint64_t> result = collection.remove(statement->filter, statement->many);
    if (result)
      removed += *result;
    else if (!errors.add(index, result.failure()))
      break;
  }
  engine::append_int32(call.reply, "n", as_count(removed));
  errors.append_to(call.reply);
  return Done{};
}

}  // namespace perdure::server::mongo

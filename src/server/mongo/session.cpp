#include "server/mongo/session.h"

#include "server/mongo/command.h"

namespace perdure::server::mongo {
namespace {

/// A handshake needs no more, and whoever has not proved anything shall not make us keep more.
constexpr std::size_t max_handshake_bytes = 64U << 10;

std::string_view database_of(const Request& request) {
  bson_iter_t field;
  if (engine::find_field(request.body, "$db", field) && bson_iter_type(&field) == BSON_TYPE_UTF8)
    return engine::text_of(field);
  return request.database;
}

/// Old drivers wrap a command that is sent with a read preference.
void unwrap_query(Request& request) {
  bson_iter_t field = engine::fields_of(request.body);
  if (!request.is_query || !bson_iter_next(&field) || !engine::is_document(field)) return;
  if (engine::name_of(field) == "$query" || engine::name_of(field) == "query")
    request.body = engine::bytes_of(field);
}

Answer<Done> execute(MongoService& service, MongoSession& session, Request& request,
                     bson_t* reply) {
  if (Answer<Done> checked = check_documents(request); !checked) return checked;
  unwrap_query(request);
  bson_iter_t first = engine::fields_of(request.body);
  if (!bson_iter_next(&first)) return {Code::failed_to_parse, "an empty command"};
  const std::string_view name = engine::name_of(first);
  Authentication authentication(session);
  const Command* command = find_command(name);
  if (!authentication.is_known() && (command == nullptr || !command->is_handshake))
    return {Code::unauthorized, "command " + std::string(name) + " requires authentication"};
  if (command == nullptr)
    return {Code::command_not_found, "no such command: '" + std::string(name) + "'"};
  Call call{service, authentication, request, name, database_of(request), reply};
  if (call.database.empty()) return {Code::failed_to_parse, "a command without a database ($db)"};
  return command->run(call);
}

}  // namespace

MongoSession::MongoSession(MongoService& service)
    : service_(service),
      number_(++service.last_connection),
      is_known_(service.credentials == nullptr) {
  ++service_.connections;
}

MongoSession::~MongoSession() { --service_.connections; }

Result<std::size_t> MongoSession::consume(std::string_view input, std::string& output) {
  std::size_t taken = 0;
  while (output.size() < output_mark_bytes) {
    const std::string_view rest = input.substr(taken);
    const Result<std::size_t> bytes = message_bytes(rest);
    if (!bytes) return bytes.error();
    if (!is_known_ && *bytes > max_handshake_bytes)
      return Error{ErrorCode::bad_input, "a long message before authentication", "", ""};
    if (*bytes == 0 || *bytes > rest.size()) break;
    Result<Request> request = read_request(rest.substr(0, *bytes));
    if (!request) return request.error();
    engine::Builder reply;
    Answer<Done> done = execute(service_, *this, *request, reply);
    engine::Builder refusal;
    if (!done) {
      engine::append_double(refusal, "ok", 0);
      append_failure(refusal, done.failure());
    } else {
      engine::append_double(reply, "ok", 1);
    }
    if (request->wants_reply) write_reply(*request, done ? reply.bytes() : refusal.bytes(), output);
    taken += *bytes;
  }
  return taken;
}

}  // namespace perdure::server::mongo

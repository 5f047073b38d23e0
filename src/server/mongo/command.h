// A command of a client: what its functions get, and the table of all of them.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "engine/document/bson_view.h"
#include "server/mongo/session.h"
#include "server/mongo/wire.h"

namespace perdure::server::mongo {

using engine::Answer;
using engine::Code;
using engine::Done;
using engine::Failure;

/// Of one connection, for commands of the handshake.
class Authentication {
 public:
  explicit Authentication(MongoSession& session) : session_(session) {}
  [[nodiscard]] bool is_known() const noexcept { return session_.is_known_; }
  [[nodiscard]] std::int32_t connection() const noexcept { return session_.number_; }
  /// saslStart and saslContinue: appends the reply.
  Answer<Done> start(std::string_view command, bson_t* reply);
  Answer<Done> go_on(std::string_view command, bson_t* reply);

 private:
  MongoSession& session_;
};

struct Call {
  MongoService& service;
  Authentication& authentication;
  const Request& request;
  std::string_view name;  ///< of the command, as the client wrote it
  std::string_view database;
  bson_t* reply;

  [[nodiscard]] std::string_view body() const noexcept { return request.body; }
  [[nodiscard]] engine::Engine& engine() const noexcept { return *service.engine; }

  /// Errors: unknown_field for an option that is neither in `known` nor one that every command
  /// takes and that changes no answer; illegal_operation for one of a transaction.
  [[nodiscard]] Answer<Done> check_options(std::initializer_list<std::string_view> known) const;
  /// "database.collection", the collection being the value of the command. Errors: bad_value.
  [[nodiscard]] Answer<std::string> collection_name() const;
  /// The value of a whole number; `otherwise` where there is none. Errors: type_mismatch.
  [[nodiscard]] Answer<std::int64_t> number(std::string_view option, std::int64_t otherwise) const;
  [[nodiscard]] bool flag(std::string_view option, bool otherwise = false) const;
  /// The bytes of a document; empty where there is none. Errors: type_mismatch.
  [[nodiscard]] Answer<std::string> document(std::string_view option) const;
  /// The documents of an array or a sequence of this name. Errors: type_mismatch, invalid_length
  /// for none or more than a batch may have.
  [[nodiscard]] Answer<std::vector<std::string_view>> documents(std::string_view option) const;
};

using Run = Answer<Done> (*)(Call&);
struct Command {
  std::string_view name;
  Run run;
  bool is_handshake = false;
};
/// Null: there is no such command.
[[nodiscard]] const Command* find_command(std::string_view name);

inline constexpr std::int64_t max_batch_writes = 100000;
inline constexpr std::size_t first_batch_documents = 101;
/// Of documents in one reply.
inline constexpr std::size_t batch_bytes = 16U << 20;

/// {cursor: {firstBatch: [...], id: ..., ns: ...}}; keeps the cursor unless it is exhausted.
Answer<Done> reply_with_cursor(Call& call, engine::Cursor cursor, const std::string& name,
                               std::size_t most, bool keeps_none);
/// The same for a short list that is there already.
void reply_with_list(Call& call, const std::string& name, std::span<const std::string> documents);
/// Appends {code, codeName, errmsg} of a failure.
void append_failure(bson_t* out, const Failure& failure);

// handshake_commands.cpp
Answer<Done> run_hello(Call& call);
Answer<Done> run_is_master(Call& call);
Answer<Done> run_build_info(Call& call);
Answer<Done> run_ping(Call& call);
Answer<Done> run_sasl_start(Call& call);
Answer<Done> run_sasl_continue(Call& call);
Answer<Done> run_end_sessions(Call& call);
// write_commands.cpp
Answer<Done> run_insert(Call& call);
Answer<Done> run_update(Call& call);
Answer<Done> run_delete(Call& call);
// read_commands.cpp
Answer<Done> run_find(Call& call);
Answer<Done> run_get_more(Call& call);
Answer<Done> run_kill_cursors(Call& call);
Answer<Done> run_count(Call& call);
// aggregate_command.cpp
Answer<Done> run_aggregate(Call& call);
// catalog_commands.cpp
Answer<Done> run_create_indexes(Call& call);
Answer<Done> run_list_indexes(Call& call);
Answer<Done> run_drop_indexes(Call& call);
Answer<Done> run_list_collections(Call& call);
Answer<Done> run_list_databases(Call& call);
Answer<Done> run_drop(Call& call);
Answer<Done> run_drop_database(Call& call);
// statistics_commands.cpp
Answer<Done> run_collection_stats(Call& call);
Answer<Done> run_database_stats(Call& call);
Answer<Done> run_server_status(Call& call);

}  // namespace perdure::server::mongo

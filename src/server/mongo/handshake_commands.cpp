#include <chrono>

#include "engine/store/document_store.h"
#include "server/mongo/command.h"

namespace perdure::server::mongo {
namespace {

// Drivers decide by it what they may send: that of MongoDB 5.0, the first of which every current
// driver and those of 2018 speak the wire protocol alike.
constexpr std::int32_t max_wire_version = 13;
constexpr std::string_view emulated_version = "5.0.0";
constexpr std::string_view mechanism = "SCRAM-SHA-256";

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void append_payload(bson_t* out, std::string_view payload) {
  bson_append_binary(out, "payload", -1, BSON_SUBTYPE_BINARY,
                     reinterpret_cast<const std::uint8_t*>(payload.data()),
                     static_cast<std::uint32_t>(payload.size()));
}

std::string_view payload_of(std::string_view command) {
  bson_iter_t field;
  if (!engine::find_field(command, "payload", field) || bson_iter_type(&field) != BSON_TYPE_BINARY)
    return {};
  std::uint32_t length = 0;
  const std::uint8_t* bytes = nullptr;
  bson_subtype_t subtype{};
  bson_iter_binary(&field, &subtype, &length, &bytes);
  return {reinterpret_cast<const char*>(bytes), length};
}

Failure refused() { return {Code::authentication_failed, "Authentication failed."}; }

void append_hello(Call& call) {
  engine::append_bool(call.reply, "helloOk", true);
  engine::append_int32(call.reply, "maxBsonObjectSize",
                       static_cast<std::int32_t>(engine::max_document_bytes));
  engine::append_int32(call.reply, "maxMessageSizeBytes", 48000000);
  engine::append_int32(call.reply, "maxWriteBatchSize",
                       static_cast<std::int32_t>(max_batch_writes));
  bson_append_date_time(call.reply, "localTime", -1, now_ms());
  engine::append_int32(call.reply, "connectionId", call.authentication.connection());
  engine::append_int32(call.reply, "minWireVersion", 0);
  engine::append_int32(call.reply, "maxWireVersion", max_wire_version);
  engine::append_bool(call.reply, "readOnly", false);
  if (call.service.credentials == nullptr) return;
  bson_iter_t field;
  if (engine::find_field(call.body(), "saslSupportedMechs", field)) {
    engine::ArrayBuilder mechanisms(call.reply, "saslSupportedMechs");
    engine::append_text(mechanisms, mechanisms.next(), mechanism);
  }
  // What fails here is not told: the client goes on to saslStart and fails there.
  if (engine::find_field(call.body(), "speculativeAuthenticate", field) &&
      engine::is_document(field)) {
    engine::Builder answer;
    if (call.authentication.start(engine::bytes_of(field), answer))
      engine::append_document(call.reply, "speculativeAuthenticate", answer.bytes());
  }
}

}  // namespace

Answer<Done> Authentication::start(std::string_view command, bson_t* reply) {
  session_.scram_.reset();
  session_.has_proved_ = false;
  if (session_.service_.credentials == nullptr)
    return {Code::authentication_failed, "this server has no password; connect without one"};
  bson_iter_t field;
  if (!engine::find_field(command, "mechanism", field) ||
      bson_iter_type(&field) != BSON_TYPE_UTF8 || engine::text_of(field) != mechanism)
    return {Code::authentication_failed, "the only mechanism is " + std::string(mechanism)};
  session_.scram_.emplace(*session_.service_.credentials);
  const std::optional<std::string> answer = session_.scram_->begin(payload_of(command));
  if (!answer) {
    session_.scram_.reset();
    return refused();
  }
  engine::append_int32(reply, "conversationId", 1);
  engine::append_bool(reply, "done", false);
  append_payload(reply, *answer);
  return Done{};
}

// The last, empty, exchange is there for clients that cannot do without; it proves nothing more.
Answer<Done> Authentication::go_on(std::string_view command, bson_t* reply) {
  if (session_.has_proved_) {
    session_.has_proved_ = false;
    engine::append_int32(reply, "conversationId", 1);
    engine::append_bool(reply, "done", true);
    append_payload(reply, "");
    return Done{};
  }
  if (!session_.scram_) return refused();
  const std::optional<std::string> answer = session_.scram_->finish(payload_of(command));
  session_.scram_.reset();
  if (!answer) return refused();
  session_.is_known_ = true;
  session_.has_proved_ = true;
  engine::append_int32(reply, "conversationId", 1);
  engine::append_bool(reply, "done", false);
  append_payload(reply, *answer);
  return Done{};
}

Answer<Done> run_hello(Call& call) {
  engine::append_bool(call.reply, "isWritablePrimary", true);
  append_hello(call);
  return Done{};
}

Answer<Done> run_is_master(Call& call) {
  engine::append_bool(call.reply, "ismaster", true);
  append_hello(call);
  return Done{};
}

Answer<Done> run_build_info(Call& call) {
  engine::append_text(call.reply, "version", emulated_version);
  engine::append_text(call.reply, "gitVersion", "perdure " + call.service.version);
  { engine::ArrayBuilder modules(call.reply, "modules"); }
  {
    engine::ArrayBuilder version(call.reply, "versionArray");
    for (const std::int32_t part : {5, 0, 0, 0})
      engine::append_int32(version, version.next(), part);
  }
  {
    engine::ArrayBuilder engines(call.reply, "storageEngines");
    engine::append_text(engines, engines.next(), "perdure");
  }
  engine::append_int32(call.reply, "bits", 64);
  engine::append_bool(call.reply, "debug", false);
  engine::append_int32(call.reply, "maxBsonObjectSize",
                       static_cast<std::int32_t>(engine::max_document_bytes));
  return Done{};
}

Answer<Done> run_ping(Call&) { return Done{}; }
Answer<Done> run_end_sessions(Call&) { return Done{}; }

Answer<Done> run_sasl_start(Call& call) {
  return call.authentication.start(call.body(), call.reply);
}
Answer<Done> run_sasl_continue(Call& call) {
  return call.authentication.go_on(call.body(), call.reply);
}

}  // namespace perdure::server::mongo

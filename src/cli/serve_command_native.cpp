#include <signal.h>

#include <nlohmann/json.hpp>
#include <random>

#include "cli/commands.h"
#include "cli/format.h"
#include "cli/serve_flags.h"
#include "driver/build_info.h"
#include "engine/recorder/recorder.h"
#include "engine/store/document_store.h"
#include "server/mongo/session.h"
#include "server/redis/session.h"
#include "server/redis/store_key_values.h"

namespace perdure::cli {
namespace {

using server::Listener;

/// What the sessions of one server share.
class Served {
 public:
  Served(engine::Engine& engine, const server::Password* password) : values_(engine.store()) {
    redis_.values = &values_;
    redis_.password = password;
    redis_.version = driver::build_info().version;
    mongo_.engine = &engine;
    mongo_.version = driver::build_info().version;
    if (password != nullptr) {
      credentials_.emplace("perdure", password->text());
      mongo_.credentials = &*credentials_;
    }
  }

  Listener listener(const Place& place) {
    if (!place.is_redis)
      return Listener{place.address, "mongo",
                      [this] { return std::make_unique<server::mongo::MongoSession>(mongo_); }, ""};
    return Listener{place.address, "redis",
                    [this] { return std::make_unique<server::redis::RedisSession>(redis_); },
                    "-ERR max number of clients reached\r\n"};
  }

 private:
  // Cursors of an earlier server must not mean anything to this one.
  static std::uint64_t random_cursor() {
    std::random_device random;
    return (std::uint64_t{random()} << 16) + 1;
  }

  server::redis::StoreKeyValues values_;
  server::redis::RedisService redis_{.cursors = server::redis::Cursors(random_cursor())};
  std::optional<server::mongo::Credentials> credentials_;
  server::mongo::MongoService mongo_;
};

std::string announcement(const std::vector<Place>& places,
                         const std::vector<server::Address>& addresses, const ServeFlags& flags) {
  std::string text;
  auto list = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const server::Address& address = addresses[i];
    const std::string protocol = places[i].is_redis ? "redis" : "mongo";
    const bool tls = flags.server.tls && !address.is_local();
    text += "listening on " + address.text() + " (" + protocol + (tls ? ", TLS" : "") + ")\n";
    nlohmann::ordered_json entry = {{"protocol", protocol}, {"address", address.text()}};
    if (!address.is_local()) entry["port"] = address.port;
    entry["tls"] = tls;
    list.push_back(std::move(entry));
  }
  if (!flags.json) return text;
  const nlohmann::ordered_json document = {{"pool", flags.pool.path}, {"listening", list}};
  return document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// Records what reaches the store of a pool from now on; null without --record. A replay begins
/// with an empty store, so a recording does, too. Errors: usage, and those of Recorder.
Result<std::unique_ptr<engine::Recorder>> start_recording(EnginePool& pool,
                                                          const ServeFlags& flags) {
  if (flags.record.empty()) return std::unique_ptr<engine::Recorder>();
  engine::DocumentStore& store = pool.engine().store();
  if (store.size() != 0)
    return usage("the pool holds " + std::to_string(store.size()) +
                     " documents and catalog entries, and a replay begins with none",
                 "--record " + flags.record, "name a new pool, with --create SIZE");
  signal(SIGXFSZ, SIG_IGN);  // a limit on the file's size ends the recording, not the server
  auto recorder = engine::Recorder::start({.path = flags.record,
                                           .replaces = flags.force,
                                           .header = {.pool_bytes = pool.bytes(),
                                                      .documents = store.size(),
                                                      .index = std::string(store.index_name())},
                                           .on_failure = [](Error error) {
                                             error.what +=
                                                 ": recording has ended, the server goes on";
                                             report(error);
                                           }});
  if (recorder) store.observe(recorder->get());
  return recorder;
}

/// With the digest of what the store holds; no client is left. Returns the exit code.
int end_recording(EnginePool& pool, engine::Recorder& recorder, const ServeFlags& flags) {
  engine::DocumentStore& store = pool.engine().store();
  store.observe(nullptr);
  const auto digest = engine::digest_of(store);
  if (!digest) return report(digest.error());
  const auto written = recorder.finish(*digest);
  if (!written) return exit_failed;  // it has been reported when it happened
  std::fprintf(stderr, "perdure: %s: %llu operations, %s, digest %s\n", flags.record.c_str(),
               static_cast<unsigned long long>(written->operations),
               short_bytes(written->bytes).c_str(), digest->text().c_str());
  return exit_ok;
}

int serve(EnginePool& pool, const ServeFlags& flags, const std::vector<Place>& places,
          const server::Password* password) {
  Served served(pool.engine(), password);
  std::vector<Listener> listeners;
  for (const Place& place : places) listeners.push_back(served.listener(place));
  auto server = server::Server::open(std::move(listeners), flags.server);
  if (!server) return report(server.error());
  const auto recorder = start_recording(pool, flags);
  if (!recorder) return report(recorder.error());
  const int printed = print_result(announcement(places, (*server)->addresses(), flags));
  if (printed == exit_ok) (*server)->run();
  const int recorded = *recorder ? end_recording(pool, **recorder, flags) : exit_ok;
  return printed != exit_ok ? printed : recorded;
}

}  // namespace

int serve_command(const Arguments& arguments) {
  ServeFlags flags;
  if (const auto code = flags.table.read(arguments)) return *code;
  const auto places = places_of(flags);
  if (!places) return report(places.error());
  std::optional<server::Password> password;
  if (!flags.password_file.empty()) {
    auto read = server::Password::read(flags.password_file);
    if (!read) return report(read.error());
    password = std::move(read).value();
  }
  signal(SIGPIPE, SIG_IGN);  // whoever reads our lines may end before us
  auto pool = EnginePool::open(flags.pool);
  if (!pool) return report(pool.error());
  const int code = serve(**pool, flags, *places, password ? &*password : nullptr);
  const auto closed = (*pool)->close();
  if (!closed) return report(closed.error());
  return code;
}

}  // namespace perdure::cli

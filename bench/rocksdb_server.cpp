// rocksdb_server: RocksDB behind the Redis front end and the event loops of `perdure serve`, so
// that both engines are measured through the same server (bench/server.py). Every write is synced
// before its reply; how RocksDB is tuned stands in rocksdb_key_values.h.
//
// It has no password and listens on loopback or a Unix socket only. SIGTERM or SIGINT ends it, as
// they end `perdure serve`. Exit codes: 0 stopped, 1 the addresses could not be printed, 2 usage,
// or the folder or address cannot be opened.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "pm/thread.h"
#include "rocksdb_key_values.h"
#include "server/redis/session.h"
#include "server/server.h"

namespace perdure::bench {
namespace {

struct Flags {
  std::string folder;
  std::optional<std::uint16_t> port;
  std::string socket;
  unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  bool json = false;
};

/// As `perdure serve` announces itself.
std::string announcement(const std::vector<server::Address>& addresses, const Flags& flags) {
  std::string text;
  auto list = nlohmann::ordered_json::array();
  for (const server::Address& address : addresses) {
    text += "listening on " + address.text() + " (redis)\n";
    nlohmann::ordered_json entry = {{"protocol", "redis"}, {"address", address.text()}};
    if (!address.is_local()) entry["port"] = address.port;
    list.push_back(std::move(entry));
  }
  if (!flags.json) return text;
  const nlohmann::ordered_json document = {{"folder", flags.folder}, {"listening", list}};
  return document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<void> serve(const Flags& flags) {
  if (!flags.port && flags.socket.empty())
    return Error{ErrorCode::usage, "there is nothing to listen on", "",
                 "give --redis 6379 or --redis-socket PATH"};
  signal(SIGPIPE, SIG_IGN);  // whoever reads our line may end before us
  auto values = RocksKeyValues::open(flags.folder);
  if (!values) return values.error();
  // Cursors of an earlier server must not mean anything to this one.
  server::redis::RedisService service{
      .cursors = server::redis::Cursors((std::uint64_t{std::random_device()()} << 16) + 1)};
  service.values = values->get();
  std::vector<server::Listener> listeners;
  const auto listen = [&](server::Address address) {
    listeners.push_back({std::move(address), "redis",
                         [&] { return std::make_unique<server::redis::RedisSession>(service); },
                         "-ERR max number of clients reached\r\n"});
  };
  if (flags.port) listen({"127.0.0.1", *flags.port});
  if (!flags.socket.empty()) listen({"", 0, flags.socket});
  auto server = server::Server::open(std::move(listeners), {.threads = flags.threads});
  if (!server) return server.error();
  const std::string text = announcement((*server)->addresses(), flags);
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    return Error{ErrorCode::failed, "the addresses could not be printed", "stdout", ""};
  (*server)->run();
  return {};
}

}  // namespace
}  // namespace perdure::bench

int main(int argc, char** argv) {
  using perdure::ErrorCode;
  perdure::bench::Flags flags;
  CLI::App app("RocksDB behind the Redis front end of `perdure serve`, to measure against");
  app.add_option("FOLDER", flags.folder, "RocksDB's folder; made if there is none")->required();
  app.add_option("--redis", flags.port, "port on 127.0.0.1; 0: any");
  app.add_option("--redis-socket", flags.socket, "Unix socket");
  app.add_option("--threads", flags.threads, "event loops (one for each core)")
      ->check(CLI::Range(1U, perdure::pm::max_workers));
  app.add_flag("--json", flags.json, "print the addresses as one line of JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "rocksdb_server: %s; see --help\n", error.what());
    return 2;
  }
  const auto served = perdure::bench::serve(flags);
  if (served) return 0;
  std::fprintf(stderr, "rocksdb_server: %s\n", served.error().line().c_str());
  return served.error().code == ErrorCode::failed ? 1 : 2;
}

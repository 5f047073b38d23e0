#include <algorithm>
#include <array>
#include <thread>

#include "cli/serve_flags.h"
#include "cli/values.h"

namespace perdure::cli {

ServeFlags::ServeFlags() {
  const auto port = [] { return count(0, 65535); };
  table.add_words("POOL", words, "the pool's file");
  table.group("Pool");
  table.add("--create", bytes(), pool.create_bytes, "make a pool of this size if there is none");
  table.add("--engine-index", text(), pool.index,
            "the index of a new pool: any persistent one of byte strings (pactree)");
  table.add("--durability", one_of(std::array{pm::Durability::adr, pm::Durability::eadr}),
            pool.durability, "adr (default) or eadr: what a power cut leaves");
  table.group("Clients");
  table.add("--listen", text(), listen, "numeric address of the ports (127.0.0.1)");
  table.add("--mongo", port(), mongo, "port for MongoDB clients; 0: any");
  table.add("--redis", port(), redis, "port for Redis clients; 0: any");
  table.add("--socket", text(), socket, "Unix socket for MongoDB clients, with mode 0600");
  table.add("--redis-socket", text(), redis_socket, "Unix socket for Redis clients");
  table.add(
      "--password-file", text(), password_file,
      "file whose first line is the password, for MongoDB's user perdure and Redis's default; "
      "others may not read it");
  table.add("--tls-cert", text(), certificate, "certificate (PEM): ports speak TLS only");
  table.add("--tls-key", text(), key, "its private key (PEM)");
  table.group("Limits");
  table.add("--threads", count(1, pm::max_workers), server.threads,
            "event loops (one for each core)");
  table.add("--max-connections", count(1, 1'000'000), server.max_connections,
            "clients at once (1000)");
  table.add("--timeout", number(0.1, 86'400), timeout_seconds,
            "seconds for the rest of a request and for reading replies (30)");
  table.group("Recording");
  table.add("--record", text(), record,
            "write every operation that reaches the store to this file, values included, for "
            "`perdure engine replay`; the pool must be empty");
  table.add_switch("--force", force, "replace an existing trace");
  table.group("Output");
  table.add_switch("--json", json, "print the addresses as one line of JSON");
}

Result<std::vector<Place>> places_of(ServeFlags& flags) {
  if (flags.words.size() != 1)
    return usage(flags.words.empty() ? "a pool is missing" : "serves one pool", "serve",
                 "give its path: perdure serve POOL --redis 6379");
  flags.pool.path = flags.words.front();
  if (!flags.table.given("--threads"))
    flags.server.threads =
        std::clamp(std::thread::hardware_concurrency(), 1U, static_cast<unsigned>(pm::max_workers));
  flags.pool.threads = flags.server.threads;
  flags.server.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(flags.timeout_seconds * 1000));
  const auto host = server::read_host(flags.listen, "--listen");
  if (!host) return host.error();
  if (!server::is_loopback(*host) && flags.password_file.empty())
    return usage("other machines reach this address, and there is no password",
                 "--listen " + flags.listen, "give --password-file FILE");
  if (flags.certificate.empty() != flags.key.empty())
    return usage("needs the other one of --tls-cert and --tls-key",
                 flags.key.empty() ? "--tls-cert" : "--tls-key", "give both");
  if (!flags.certificate.empty()) flags.server.tls = {flags.certificate, flags.key};
  std::vector<Place> places;
  if (flags.mongo) places.push_back({{*host, *flags.mongo}, false});
  if (flags.redis) places.push_back({{*host, *flags.redis}, true});
  if (!flags.socket.empty()) places.push_back({{"", 0, flags.socket}, false});
  if (!flags.redis_socket.empty()) places.push_back({{"", 0, flags.redis_socket}, true});
  if (flags.force && flags.record.empty())
    return usage("replaces the trace of --record", "--force", "give --record FILE, too");
  if (flags.table.given("--record") && flags.record.empty())
    return usage("names no file", "--record", "give --record FILE");
  if (places.empty())
    return usage("there is nothing to listen on", "serve",
                 "give --mongo 27017, --redis 6379, --socket PATH or --redis-socket PATH");
  return places;
}

}  // namespace perdure::cli

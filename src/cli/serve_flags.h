// The flags of `serve`, and what they come to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/engine_pool.h"
#include "cli/flags.h"
#include "core/result.h"
#include "server/address.h"
#include "server/server.h"

namespace perdure::cli {

struct ServeFlags {
  ServeFlags();  ///< declares them

  FlagTable table{"serve",
                  "Serves the documents of a pool to MongoDB clients and its values to Redis "
                  "clients, until SIGTERM or SIGINT."};
  std::vector<std::string> words;
  EnginePoolOptions pool;
  server::ServerOptions server;
  std::string listen = "127.0.0.1";
  std::optional<std::uint16_t> mongo, redis;
  std::string socket, redis_socket;
  std::string password_file, certificate, key;
  std::string record;
  bool force = false;
  double timeout_seconds = 30;
  bool json = false;
};

/// Where one protocol is spoken.
struct Place {
  server::Address address;
  bool is_redis = false;
};

/// Checks what the flags say together, and fills in what follows from them. Errors: usage.
[[nodiscard]] Result<std::vector<Place>> places_of(ServeFlags& flags);

}  // namespace perdure::cli

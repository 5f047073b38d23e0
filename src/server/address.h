// Address: where clients connect.
#pragma once

#include <cstdint>
#include <string>

#include "core/result.h"

namespace perdure::server {

/// A TCP port of a numeric address, or a Unix socket.
struct Address {
  std::string host{};      ///< "127.0.0.1"; empty for a Unix socket
  std::uint16_t port = 0;  ///< 0: the system picks one
  std::string path{};      ///< of a Unix socket, which is made with mode 0600

  /// "127.0.0.1:6379", "[::1]:6379", "/run/perdure.sock".
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool is_local() const noexcept { return !path.empty(); }
};

/// `text` as a numeric address ("localhost" is 127.0.0.1). Errors: usage, naming `flag`.
[[nodiscard]] Result<std::string> read_host(const std::string& text, const std::string& flag);
/// True when only this machine reaches it. `host` is what `read_host` gave.
[[nodiscard]] bool is_loopback(const std::string& host);

}  // namespace perdure::server

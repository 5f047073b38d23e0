// NumericAddress: an address and a port as the system's calls take them.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "server/address.h"

namespace perdure::server::loop {

struct NumericAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;  ///< 0: the text was no numeric address

  [[nodiscard]] static NumericAddress of(const std::string& host, std::uint16_t port);
  /// "127.0.0.1:6379", "[::1]:6379"; empty for a Unix socket's.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::uint16_t port() const;
};

/// AF_UNIX, AF_INET or AF_INET6.
[[nodiscard]] int family_of(const Address& address);

}  // namespace perdure::server::loop

#include "server/address.h"

#include <netinet/in.h>

#include <cstring>

#include "server/loop/numeric_address.h"

namespace perdure::server {

std::string Address::text() const {
  if (is_local()) return path;
  const bool has_colons = host.find(':') != std::string::npos;
  return (has_colons ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<std::string> read_host(const std::string& text, const std::string& flag) {
  if (text == "localhost") return std::string("127.0.0.1");
  if (loop::NumericAddress::of(text, 0).bytes != 0) return text;
  return Error{ErrorCode::usage, "'" + text + "' is no numeric address", flag,
               "give one such as 127.0.0.1, ::1 or 0.0.0.0"};
}

bool is_loopback(const std::string& host) {
  const loop::NumericAddress address = loop::NumericAddress::of(host, 0);
  if (address.bytes == 0) return false;
  if (address.storage.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &address.storage, sizeof four);
    return (ntohl(four.sin_addr.s_addr) >> 24) == 127;
  }
  sockaddr_in6 six{};
  std::memcpy(&six, &address.storage, sizeof six);
  return IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
}

}  // namespace perdure::server

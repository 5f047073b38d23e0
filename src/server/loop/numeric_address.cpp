#include "server/loop/numeric_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace perdure::server::loop {

NumericAddress NumericAddress::of(const std::string& host, std::uint16_t port) {
  NumericAddress address;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
    std::memcpy(&address.storage, &four, sizeof four);
    address.bytes = sizeof four;
  } else if (inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1) {
    std::memcpy(&address.storage, &six, sizeof six);
    address.bytes = sizeof six;
  }
  return address;
}

// The port is at the same place in both kinds of addresses.
std::uint16_t NumericAddress::port() const {
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  sockaddr_in four{};
  std::memcpy(&four, &storage, sizeof four);
  return ntohs(four.sin_port);
}

std::string NumericAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> host{};
  sockaddr_in four{};
  sockaddr_in6 six{};
  std::memcpy(&four, &storage, sizeof four);
  std::memcpy(&six, &storage, sizeof six);
  const bool is_four = storage.ss_family == AF_INET;
  if (!is_four && storage.ss_family != AF_INET6) return {};
  const void* const address = is_four ? static_cast<const void*>(&four.sin_addr) : &six.sin6_addr;
  if (inet_ntop(storage.ss_family, address, host.data(), host.size()) == nullptr) return {};
  return Address{host.data(), port()}.text();
}

int family_of(const Address& address) {
  if (address.is_local()) return AF_UNIX;
  return address.host.find(':') == std::string::npos ? AF_INET : AF_INET6;
}

}  // namespace perdure::server::loop

// ListeningSocket: an open TCP port or Unix socket that clients can connect to.
#pragma once

#include <memory>
#include <string>

#include "core/result.h"
#include "server/server.h"

namespace perdure::server::loop {

class ListeningSocket {
 public:
  /// A Unix socket that a process left behind when it was killed is replaced.
  /// Errors: usage, busy (somebody listens there), exists (the path is something else), io.
  [[nodiscard]] static Result<std::unique_ptr<ListeningSocket>> open(const Address& address);
  /// Closes it, and removes the path of a Unix socket, if it is still this one's.
  ~ListeningSocket();
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// With the port that the system picked.
  [[nodiscard]] const Address& address() const noexcept { return address_; }

 private:
  ListeningSocket(int descriptor, Address address)
      : descriptor_(descriptor), address_(std::move(address)) {}
  Result<void> bind_port();
  Result<void> bind_path();

  int descriptor_;
  Address address_;
  std::uint64_t device_ = 0;  ///< of the Unix socket, once it is bound
  std::uint64_t inode_ = 0;
};

}  // namespace perdure::server::loop

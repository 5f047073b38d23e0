#include "server/loop/listening_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "server/loop/numeric_address.h"

namespace perdure::server::loop {
namespace {

constexpr int backlog = 1024;

Error cannot_listen(const Address& address, int why) {
  if (why == EADDRINUSE)
    return {ErrorCode::busy, "somebody listens there already", address.text(),
            address.is_local() ? "give another path" : "give another port, or 0 for any"};
  const bool is_refused = why == EACCES || why == EPERM;
  return {ErrorCode::io, std::string("cannot listen there: ") + std::strerror(why), address.text(),
          is_refused ? "give a port from 1024 on, or a path that you may write"
                     : "give an address of this machine"};
}

Result<sockaddr_un> local_address(const Address& address) {
  sockaddr_un local{};
  local.sun_family = AF_UNIX;
  if (address.path.size() >= sizeof local.sun_path)
    return Error{ErrorCode::usage, "the path of a Unix socket has at most 107 bytes", address.path,
                 "give a shorter one"};
  std::memcpy(local.sun_path, address.path.data(), address.path.size());
  return local;
}

const sockaddr* as_sockaddr(const void* address) { return static_cast<const sockaddr*>(address); }

/// Nobody has listened on a socket that refuses connections since its process ended.
Result<void> remove_left_over(const Address& address, const sockaddr_un& local) {
  struct stat facts {};
  if (lstat(address.path.c_str(), &facts) != 0) return {};
  if (!S_ISSOCK(facts.st_mode))
    return Error{ErrorCode::exists, "is no socket", address.path,
                 "give another path, or remove what is there"};
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return cannot_listen(address, errno);
  const bool is_free =
      connect(probe, as_sockaddr(&local), sizeof local) != 0 && errno == ECONNREFUSED;
  close(probe);
  if (!is_free) return cannot_listen(address, EADDRINUSE);
  unlink(address.path.c_str());
  return {};
}

}  // namespace

Result<std::unique_ptr<ListeningSocket>> ListeningSocket::open(const Address& address) {
  const int descriptor = socket(family_of(address), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return cannot_listen(address, errno);
  std::unique_ptr<ListeningSocket> opened(new ListeningSocket(descriptor, address));
  auto bound = address.is_local() ? opened->bind_path() : opened->bind_port();
  if (!bound) return bound.error();
  if (listen(descriptor, backlog) != 0) return cannot_listen(address, errno);
  return opened;
}

Result<void> ListeningSocket::bind_port() {
  const int on = 1;
  setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // "::" stands for IPv6 alone, so that the address says what it means.
  if (family_of(address_) == AF_INET6)
    setsockopt(descriptor_, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  const NumericAddress numeric = NumericAddress::of(address_.host, address_.port);
  if (numeric.bytes == 0) return cannot_listen(address_, EINVAL);
  if (bind(descriptor_, as_sockaddr(&numeric.storage), numeric.bytes) != 0)
    return cannot_listen(address_, errno);
  NumericAddress bound;
  bound.bytes = sizeof bound.storage;
  if (getsockname(descriptor_, reinterpret_cast<sockaddr*>(&bound.storage), &bound.bytes) != 0)
    return cannot_listen(address_, errno);
  address_.port = bound.port();
  return {};
}

// The mode is that of the moment when the path appears: changed afterwards, somebody might have
// connected before. The process has one thread yet.
Result<void> ListeningSocket::bind_path() {
  const auto local = local_address(address_);
  if (!local) return local.error();
  if (auto removed = remove_left_over(address_, *local); !removed) return removed;
  const mode_t mask = umask(0177);
  const int bound = bind(descriptor_, as_sockaddr(&*local), sizeof *local);
  const int why = errno;
  umask(mask);
  if (bound != 0) return cannot_listen(address_, why);
  struct stat facts {};
  if (lstat(address_.path.c_str(), &facts) == 0) {
    device_ = facts.st_dev;
    inode_ = facts.st_ino;
  }
  return {};
}

ListeningSocket::~ListeningSocket() {
  struct stat facts {};
  if (inode_ != 0 && lstat(address_.path.c_str(), &facts) == 0 && facts.st_dev == device_ &&
      facts.st_ino == inode_)
    unlink(address_.path.c_str());
  close(descriptor_);
}

}  // namespace perdure::server::loop

#include "server/password.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace perdure::server {
namespace {

constexpr std::size_t max_password_bytes = 1024;

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

Digest digest_of(std::string_view text) {
  Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

struct OpenFile {
  int descriptor;
  ~OpenFile() {
    if (descriptor >= 0) close(descriptor);
  }
};

Error refused(std::string what, const std::string& path, std::string remedy) {
  return {ErrorCode::bad_input, std::move(what), path, std::move(remedy)};
}

}  // namespace

Result<Password> Password::read(const std::string& path) {
  // Not blocking: the path may lead to a pipe that nobody writes to.
  const OpenFile file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.descriptor < 0)
    return Error{errno == ENOENT ? ErrorCode::not_found : ErrorCode::io,
                 std::string("the password file cannot be read: ") + std::strerror(errno), path,
                 "write the password into its first line"};
  struct stat facts {};
  if (fstat(file.descriptor, &facts) != 0 || !S_ISREG(facts.st_mode))
    return refused("is no regular file", path, "give a file with the password in its first line");
  if ((facts.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) != 0)
    return refused("others can read or change the password", path, "run chmod 600 " + path);
  std::string text(max_password_bytes + 2, '\0');
  const ssize_t got = ::read(file.descriptor, text.data(), text.size());
  if (got < 0)
    return Error{ErrorCode::io, std::strerror(errno), path, "give a file that can be read"};
  text.resize(static_cast<std::size_t>(got));
  text.resize(std::min(text.size(), text.find('\n')));
  if (text.ends_with('\r')) text.pop_back();
  if (text.empty()) return refused("the password is empty", path, "write it into the first line");
  if (text.size() > max_password_bytes)
    return refused("the password is longer than 1024 bytes", path, "choose a shorter one");
  return Password(std::move(text));
}

// Digests have one length, so that the comparison does not tell the password's.
bool Password::matches(std::string_view attempt) const {
  const Digest wanted = digest_of(text_);
  const Digest given = digest_of(attempt);
  return CRYPTO_memcmp(wanted.data(), given.data(), wanted.size()) == 0;
}

}  // namespace perdure::server

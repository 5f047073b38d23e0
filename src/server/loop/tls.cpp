#include "server/loop/tls.h"

#include <openssl/ssl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace perdure::server::loop {
namespace {

using Context = boost::asio::ssl::context;

Result<void> check_readable(const std::string& path, const char* flag) {
  if (access(path.c_str(), R_OK) == 0) return {};
  return Error{errno == ENOENT ? ErrorCode::not_found : ErrorCode::io,
               std::string("cannot be read: ") + std::strerror(errno),
               std::string(flag) + " " + path, "give a PEM file"};
}

Error refused(const std::string& path, const char* flag, const std::string& why,
              const char* remedy) {
  return {ErrorCode::bad_input, why, std::string(flag) + " " + path, remedy};
}

}  // namespace

Result<std::unique_ptr<Context>> make_tls(const TlsFiles& files) {
  if (auto readable = check_readable(files.certificate, "--tls-cert"); !readable)
    return readable.error();
  if (auto readable = check_readable(files.key, "--tls-key"); !readable) return readable.error();
  auto tls = std::make_unique<Context>(Context::tls_server);
  SSL_CTX* const native = tls->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  boost::system::error_code error;
  // Otherwise OpenSSL would ask the terminal for an encrypted key's password.
  tls->set_password_callback([](std::size_t, Context::password_purpose) { return std::string(); },
                             error);
  tls->use_certificate_chain_file(files.certificate, error);
  if (error)
    return refused(files.certificate, "--tls-cert", "is no certificate: " + error.message(),
                   "give a PEM file with the certificate first");
  tls->use_private_key_file(files.key, Context::pem, error);
  if (error)
    return refused(files.key, "--tls-key", "is no key for it: " + error.message(),
                   "give the certificate's private key as a PEM file that is not encrypted");
  if (SSL_CTX_check_private_key(native) != 1)
    return refused(files.key, "--tls-key", "is not the key of the certificate",
                   "give the two that belong together");
  return tls;
}

}  // namespace perdure::server::loop

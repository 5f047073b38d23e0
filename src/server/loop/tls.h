// TLS of the server's TCP ports, by OpenSSL.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "core/result.h"
#include "server/server.h"

namespace perdure::server::loop {

/// TLS 1.2 or later with this certificate. Errors: not_found, bad_input.
[[nodiscard]] Result<std::unique_ptr<boost::asio::ssl::context>> make_tls(const TlsFiles& files);

}  // namespace perdure::server::loop

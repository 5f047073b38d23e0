// SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side: a client proves that it knows the password
// without sending it.
//
// A1  the server's half of the nonce is fresh for each conversation, so a recorded one is of no
// use. A2  an unknown user fails at the same step as a wrong password.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace perdure::server::mongo {

using Digest = std::array<std::uint8_t, 32>;

/// What the server keeps of a password; derived once.
class Credentials {
 public:
  /// The password as it is typed: one beyond ASCII is not normalised (SASLprep). Cost: 15,000
  /// rounds of HMAC, about 10 ms.
  Credentials(std::string user, std::string_view password);

  static constexpr int iterations = 15000;
  [[nodiscard]] const std::string& user() const noexcept { return user_; }
  [[nodiscard]] const std::string& salt() const noexcept { return salt_; }
  [[nodiscard]] const Digest& stored_key() const noexcept { return stored_key_; }
  [[nodiscard]] const Digest& server_key() const noexcept { return server_key_; }

 private:
  std::string user_;
  std::string salt_;  ///< in Base64
  Digest stored_key_{};
  Digest server_key_{};
};

/// One conversation. Every step takes the client's message and gives the server's, or nothing: the
/// client has failed, and the conversation is over.
class Scram {
 public:
  explicit Scram(const Credentials& credentials) : credentials_(credentials) {}

  [[nodiscard]] std::optional<std::string> begin(std::string_view client_first);
  [[nodiscard]] std::optional<std::string> finish(std::string_view client_final);

 private:
  const Credentials& credentials_;
  bool knows_user_ = false;
  std::string nonce_;
  std::string binding_;  ///< how the client begins, in Base64
  std::string client_first_bare_;
  std::string server_first_;
};

// For tests.
[[nodiscard]] std::string to_base64(std::string_view bytes);
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);
[[nodiscard]] Digest hmac(std::string_view key, std::string_view text);
[[nodiscard]] Digest salted_password(std::string_view password, std::string_view salt);

}  // namespace perdure::server::mongo

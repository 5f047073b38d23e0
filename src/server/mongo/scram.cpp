#include "server/mongo/scram.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <cstdlib>
#include <vector>

namespace perdure::server::mongo {
namespace {

constexpr std::size_t most_message_bytes = 4096;

const std::uint8_t* raw_bytes(std::string_view text) noexcept {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

std::string_view view_of(const Digest& digest) noexcept {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

Digest sha256(std::string_view text) noexcept {
  Digest digest;
  SHA256(raw_bytes(text), text.size(), digest.data());
  return digest;
}

/// Base64 of so many random bytes. Without randomness there is no security to fall back to.
std::string random_text(std::size_t bytes) {
  std::string random(bytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(random.data()), static_cast<int>(bytes)) != 1)
    std::abort();
  return to_base64(random);
}

/// "key=value" at the beginning of `rest`, up to a comma; removed from it.
bool take_attribute(std::string_view& rest, char key, std::string_view& value) {
  if (rest.size() < 2 || rest[0] != key || rest[1] != '=') return false;
  const std::size_t comma = rest.find(',');
  value = rest.substr(2, comma == std::string_view::npos ? comma : comma - 2);
  rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  return true;
}

std::string unescaped(std::string_view name) {
  std::string plain;
  for (; !name.empty(); name.remove_prefix(1)) {
    if (name.starts_with("=2C") || name.starts_with("=3D")) {
      plain += name[1] == '2' ? ',' : '=';
      name.remove_prefix(2);
    } else {
      plain += name.front();
    }
  }
  return plain;
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     raw_bytes(bytes), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0 || text.size() > most_message_bytes) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                     raw_bytes(text), static_cast<int>(text.size()));
  if (length < 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  if (bytes.size() < padding) return std::nullopt;
  bytes.resize(bytes.size() - padding);
  return bytes;
}

Digest hmac(std::string_view key, std::string_view text) {
  Digest digest;
  unsigned length = digest.size();
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), raw_bytes(text), text.size(),
       digest.data(), &length);
  return digest;
}

Digest salted_password(std::string_view password, std::string_view salt) {
  Digest digest;
  PKCS5_PBKDF2_HMAC(password.data(), static_cast<int>(password.size()), raw_bytes(salt),
                    static_cast<int>(salt.size()), Credentials::iterations, EVP_sha256(),
                    static_cast<int>(digest.size()), digest.data());
  return digest;
}

Credentials::Credentials(std::string user, std::string_view password) : user_(std::move(user)) {
  salt_ = random_text(28);
  const Digest salted = salted_password(password, from_base64(salt_).value_or(""));
  stored_key_ = sha256(view_of(hmac(view_of(salted), "Client Key")));
  server_key_ = hmac(view_of(salted), "Server Key");
}

std::optional<std::string> Scram::begin(std::string_view client_first) {
  if (client_first.size() > most_message_bytes) return std::nullopt;
  // "n,," or "y,,": the client binds to no channel.
  if (!client_first.starts_with("n,,") && !client_first.starts_with("y,,")) return std::nullopt;
  binding_ = to_base64(client_first.substr(0, 3));
  std::string_view rest = client_first.substr(3);
  client_first_bare_ = rest;
  std::string_view user;
  std::string_view client_nonce;
  if (!take_attribute(rest, 'n', user) || !take_attribute(rest, 'r', client_nonce) ||
      client_nonce.empty())
    return std::nullopt;
  knows_user_ = unescaped(user) == credentials_.user();
  nonce_ = std::string(client_nonce) + random_text(24);
  server_first_ =
      "r=" + nonce_ + ",s=" + credentials_.salt() + ",i=" + std::to_string(Credentials::iterations);
  return server_first_;
}

std::optional<std::string> Scram::finish(std::string_view client_final) {
  if (nonce_.empty() || client_final.size() > most_message_bytes) return std::nullopt;
  std::string_view rest = client_final;
  std::string_view binding;
  std::string_view nonce;
  std::string_view proof_text;
  const std::string_view without_proof = client_final.substr(0, client_final.rfind(",p="));
  if (!take_attribute(rest, 'c', binding) || !take_attribute(rest, 'r', nonce) ||
      !take_attribute(rest, 'p', proof_text) || !rest.empty())
    return std::nullopt;
  const std::optional<std::string> proof = from_base64(proof_text);
  if (binding != binding_ || nonce != nonce_ || !proof || proof->size() != sizeof(Digest))
    return std::nullopt;
  const std::string message =
      client_first_bare_ + ',' + server_first_ + ',' + std::string(without_proof);
  const Digest signature = hmac(view_of(credentials_.stored_key()), message);
  Digest client_key;
  for (std::size_t i = 0; i < client_key.size(); ++i)
    client_key[i] =
        static_cast<std::uint8_t>(static_cast<std::uint8_t>((*proof)[i]) ^ signature[i]);
  nonce_.clear();
  const Digest stored = sha256(view_of(client_key));
  const bool matches =
      CRYPTO_memcmp(stored.data(), credentials_.stored_key().data(), stored.size()) == 0;
  if (!matches || !knows_user_) return std::nullopt;
  return "v=" + to_base64(view_of(hmac(view_of(credentials_.server_key()), message)));
}

}  // namespace perdure::server::mongo

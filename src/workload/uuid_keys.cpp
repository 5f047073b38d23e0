#include "workload/uuid_keys.h"

#include <array>
#include <cstring>

#include "core/rng.h"
#include "workload/bijection.h"

namespace perdure::workload {
namespace {

constexpr std::uint64_t uuid_purpose = 0x55554944;

struct Uuid {
  std::uint64_t high;
  std::uint64_t low;
};

constexpr std::uint64_t version_bits = 0xf000;
constexpr std::uint64_t version_4 = 0x4000;
constexpr unsigned low_bits = 62;  // without the variant
constexpr std::uint64_t low_mask = (1ULL << low_bits) - 1;
constexpr std::uint64_t variant = 2ULL << low_bits;

/// Two bits of the mixed id have no room beside the variant, and lie at the end of `high`.
Uuid uuid_of(std::uint64_t mixed, std::uint64_t key) noexcept {
  const std::uint64_t drawn = mix64(mixed ^ key) & ~version_bits & ~std::uint64_t{3};
  return {drawn | version_4 | mixed >> low_bits, variant | (mixed & low_mask)};
}

constexpr bool has_dash_before(std::size_t byte) noexcept {
  return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

std::optional<Uuid> read_text(std::string_view text) noexcept {
  constexpr std::string_view digits = "0123456789abcdef";
  std::array<std::uint64_t, 2> words{};
  std::size_t at = 0;
  for (std::size_t byte = 0; byte < UuidKeys::binary_bytes; ++byte) {
    if (has_dash_before(byte) && text[at++] != '-') return std::nullopt;
    for (int nibble = 0; nibble < 2; ++nibble) {
      const std::size_t digit = digits.find(text[at++]);
      if (digit == std::string_view::npos) return std::nullopt;
      words[byte / 8] = words[byte / 8] << 4 | digit;
    }
  }
  return Uuid{words[0], words[1]};
}

}  // namespace

UuidKeys::UuidKeys(Notation notation, std::uint64_t seed) noexcept
    : notation_(notation), key_(mix64(mix64(seed) ^ uuid_purpose)) {}

std::size_t UuidKeys::write(std::uint64_t id, char* out) const noexcept {
  const Uuid uuid = uuid_of(mix64(id ^ key_), key_);
  std::array<std::uint64_t, 2> words{__builtin_bswap64(uuid.high), __builtin_bswap64(uuid.low)};
  if (notation_ == Notation::binary) {
    std::memcpy(out, words.data(), binary_bytes);
    return binary_bytes;
  }
  constexpr char digits[] = "0123456789abcdef";
  std::array<unsigned char, binary_bytes> bytes;
  std::memcpy(bytes.data(), words.data(), binary_bytes);
  for (std::size_t byte = 0; byte < binary_bytes; ++byte) {
    if (has_dash_before(byte)) *out++ = '-';
    *out++ = digits[bytes[byte] >> 4];
    *out++ = digits[bytes[byte] & 15];
  }
  return text_bytes;
}

std::optional<std::uint64_t> UuidKeys::id_of(std::string_view key) const {
  if (key.size() != longest()) return std::nullopt;
  std::optional<Uuid> uuid;
  if (notation_ == Notation::text) {
    uuid = read_text(key);
  } else {
    std::array<std::uint64_t, 2> words;
    std::memcpy(words.data(), key.data(), binary_bytes);
    uuid = Uuid{__builtin_bswap64(words[0]), __builtin_bswap64(words[1])};
  }
  if (!uuid) return std::nullopt;
  const std::uint64_t mixed = (uuid->high & 3) << low_bits | (uuid->low & low_mask);
  const Uuid expected = uuid_of(mixed, key_);
  if (expected.high != uuid->high || expected.low != uuid->low) return std::nullopt;
  return unmix64(mixed) ^ key_;
}

}  // namespace perdure::workload

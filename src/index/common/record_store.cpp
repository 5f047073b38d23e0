#include "index/common/record_store.h"

namespace perdure {
namespace detail {

std::uint64_t hash_text(std::string_view text) noexcept {
  constexpr std::uint64_t first = 0xa0761d6478bd642fULL;
  constexpr std::uint64_t second = 0xe7037ed1a0b428dbULL;
  std::uint64_t hash = fold(text.size() ^ first, second);
  const char* at = text.data();
  std::size_t left = text.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    hash = fold(hash ^ word, first);
  }
  std::uint64_t word = 0;
  if (left != 0) std::memcpy(&word, at, left);
  return fold(hash ^ word, second);
}

Error corrupt_record(const char* what, std::uint64_t offset, const Pool& pool) {
  return {ErrorCode::corrupt, std::string(what) + " at offset " + std::to_string(offset),
          pool.path(),
          "restore the pool from a copy, or create a new one with PoolOptions::overwrite"};
}

}  // namespace detail

bool RecordStore<ByteKeys>::draft(std::string_view key, std::string_view value, Draft& out,
                                  Block block) const noexcept {
  constexpr std::size_t widest = 4096;
  Sizes size{static_cast<std::uint16_t>(key.size()), 0, static_cast<std::uint32_t>(value.size())};
  const std::size_t bytes = block_bytes(size);
  out.block = pool_.heap().reserve(bytes);
  while (!out.block) {
    ++size.wider;
    if (block == Block::fitting || block_bytes(size) > widest) return false;
    out.block = pool_.heap().reserve(block_bytes(size));
  }
  std::byte* const at = pool_.base() + out.block.offset;
  std::memcpy(at, &size, sizeof size);
  if (!key.empty()) std::memcpy(at + header_bytes, key.data(), key.size());
  if (!value.empty()) std::memcpy(at + header_bytes + key.size(), value.data(), value.size());
  pm::flush(at, bytes);
  out.words = {key_prefix(key), out.block.offset};
  return true;
}

void RecordStore<ByteKeys>::retire(RecordWords words) const {
  epochs_.retire(pool_.heap(), words.value, blob_bytes(words));
}

Result<void> RecordStore<ByteKeys>::check_blob(std::uint64_t offset) const {
  const RecordWords words{0, offset};
  if (!pool_.contains(offset, header_bytes))
    return detail::corrupt_record("a record leads outside the pool", offset, pool_);
  const Sizes size = sizes(words);
  if (size.key > max_key_bytes || size.value > max_value_bytes ||
      size.wider >=
          size_classes::count - size_classes::class_of(header_bytes + size.key + size.value) ||
      !pool_.contains(offset, blob_bytes(words)))
    return detail::corrupt_record("a record's length is impossible", offset, pool_);
  return {};
}

Result<void> RecordStore<ByteKeys>::check(RecordWords words) const {
  Result<void> sane = check_blob(words.value);
  if (!sane) return sane;
  if (key_prefix(key_of(words)) != words.key)
    return detail::corrupt_record("a record's key does not match its leaf", words.value, pool_);
  return {};
}

Result<void> RecordStore<ByteKeys>::mark(RecordWords words) const {
  Result<void> sane = check(words);
  if (!sane) return sane;
  if (!pool_.heap().mark(words.value, blob_bytes(words)))
    return detail::corrupt_record("two records share a block, or it is no block", words.value,
                                  pool_);
  return {};
}

}  // namespace perdure

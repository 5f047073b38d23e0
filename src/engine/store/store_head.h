// What a store's root leads to: one block that tells where everything else is.
//
//   byte 0        32        40      48         56        64       128           ...
//        | index  | segment | chunk | segments | check   | filling | intent pairs | directories |
//                   bytes
//   directories: `chunks` words for the table, then `segments` words
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/store/document_store.h"

namespace perdure::engine {

struct DocumentStore::Head {
  std::array<char, 32> index;  ///< name in the registry, padded with zero bytes
  std::uint64_t segment_bytes;
  std::uint64_t chunks;
  std::uint64_t segments;
  std::uint64_t check;                 ///< of the fields above
  std::atomic<std::uint64_t> filling;  ///< 1: a power cut empties the store
  std::array<std::uint64_t, 7> zero;
  std::array<IntentPair, pm::max_threads> intents;

  /// Of the whole block.
  [[nodiscard]] static constexpr std::uint64_t bytes(std::uint64_t chunks,
                                                     std::uint64_t segments) noexcept {
    return sizeof(Head) + (chunks + segments) * sizeof(Word);
  }
  [[nodiscard]] std::span<Word> chunk_directory() noexcept {
    return {reinterpret_cast<Word*>(this + 1), chunks};
  }
  [[nodiscard]] std::span<Word> segment_directory() noexcept {
    return {reinterpret_cast<Word*>(this + 1) + chunks, segments};
  }
  [[nodiscard]] std::uint64_t sum() const noexcept {
    return extend_crc(0, {reinterpret_cast<const char*>(this), offsetof(Head, check)});
  }
  [[nodiscard]] std::string_view index_name() const noexcept {
    return std::string_view(index.data(), index.size())
        .substr(0, std::string_view(index.data(), index.size()).find('\0'));
  }
};

}  // namespace perdure::engine

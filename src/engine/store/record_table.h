// RecordTable: leads from the id of a record to its place. Ids are small numbers that are used
// again.
//
//   word, 64 bits   0                      never used
//                   offset of the record   present; a multiple of 64
//                   removed | version      absent; `version` is that of the removal
//
// The words lie in chunks: 64 words, then each twice the one before, up to 1 MiB. A directory in
// the store's head leads to them.
//
// T1  a chunk is zero and durable before the directory leads to it, and stays for ever.
// T2  ids are handed out again only after the removal is complete (document_store.h).
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/result.h"
#include "pm/pm.h"
#include "pool/pool.h"

namespace perdure::engine {

using Word = std::atomic<std::uint64_t>;

class RecordTable {
 public:
  static constexpr std::uint64_t removed = std::uint64_t{1} << 63;
  static constexpr std::uint64_t no_id = ~std::uint64_t{0};

  [[nodiscard]] static constexpr bool is_present(std::uint64_t word) noexcept {
    return word != 0 && (word & removed) == 0;
  }
  /// Chunks that `words` words take.
  [[nodiscard]] static constexpr std::uint64_t chunks_for(std::uint64_t words) noexcept {
    return chunk_of(words) + 1;
  }

  RecordTable(Pool& pool, std::span<Word> directory);

  /// The word of an id that was handed out, or read from media and is below `capacity`.
  [[nodiscard]] Word& word(std::uint64_t id) const noexcept {
    const std::uint64_t chunk = chunk_of(id);
    return chunk_[chunk].load(std::memory_order_acquire)[id - first_of(chunk)];
  }
  /// Ids that have a word.
  [[nodiscard]] std::uint64_t capacity() const noexcept {
    return capacity_.load(std::memory_order_acquire);
  }
  /// Ids from here on were never used.
  [[nodiscard]] std::uint64_t used() const noexcept {
    return used_.load(std::memory_order_relaxed);
  }

  /// An id whose record is absent, or no_id: the pool is full.
  [[nodiscard]] std::uint64_t take();
  void give_back(std::uint64_t id);

  /// After opening: checks the directory and marks the chunks. Errors: corrupt.
  [[nodiscard]] Result<void> recover();
  /// Then, when words are what they shall be: ids up to `used` that are absent can be taken.
  void recover_ids(std::uint64_t used);

  [[nodiscard]] std::uint64_t dram_bytes() const noexcept {
    return chunk_.size() * sizeof chunk_[0] + free_.capacity() * sizeof free_[0] + sizeof own_;
  }

 private:
  static constexpr unsigned first_bits = 6;
  static constexpr unsigned doublings = 11;  ///< after which a chunk is 1 MiB
  static constexpr unsigned cached_ids = 16;
  static constexpr std::uint64_t words_of(std::uint64_t chunk) noexcept {
    return std::uint64_t{1} << (first_bits + (chunk < doublings ? chunk : doublings));
  }
  static constexpr std::uint64_t first_of(std::uint64_t chunk) noexcept {
    if (chunk <= doublings) return ((std::uint64_t{1} << chunk) - 1) << first_bits;
    return (((std::uint64_t{1} << doublings) - 1) << first_bits) +
           (chunk - doublings) * words_of(doublings);
  }
  static constexpr std::uint64_t chunk_of(std::uint64_t id) noexcept {
    const auto doubled = static_cast<std::uint64_t>(std::bit_width((id >> first_bits) + 1) - 1);
    if (doubled < doublings) return doubled;
    return doublings + (id - first_of(doublings)) / words_of(doublings);
  }
  /// The caller holds the lock.
  [[nodiscard]] bool grow();

  /// Ids that one thread has to itself.
  struct alignas(64) Own {
    std::array<std::uint64_t, cached_ids> id;
    unsigned count = 0;
  };

  Pool& pool_;
  const std::span<Word> directory_;
  std::vector<std::atomic<Word*>> chunk_;
  std::atomic<std::uint64_t> capacity_{0};
  std::atomic<std::uint64_t> used_{0};
  pm::VersionLock lock_;  ///< guards free_, used_ and growth
  std::vector<std::uint64_t> free_;
  std::unique_ptr<std::array<Own, pm::max_threads>> own_;
};

}  // namespace perdure::engine

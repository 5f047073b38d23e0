// Table: an array too long for one block: a directory of refs to chunks, whose addresses are kept
// in DRAM, so that an element is as near as in one piece.
//
//   directory | chunk[0] | chunk[1] | ...      refs
//   chunk     | element[0] | ... | element[2^k - 1] |
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/registry.h"
#include "pool/heap.h"
#include "structure/base/walk.h"

namespace perdure::structure {

/// How many buckets a hash table gets: what the options say, or, for the study's load factor of
/// 0.75, what follows from the number of records.
[[nodiscard]] inline std::uint64_t buckets_of(const IndexOptions& options) {
  const std::uint64_t given = options.get("buckets");
  return given != 0 ? given : options.get("records") * 4 / 3 + 1;
}

template <class Memory, class T>
class Table {
 public:
  template <class U>
  using Ref = typename Memory::template Ref<U>;
  using Chunk = T;               // the first of its elements
  using Directory = Ref<Chunk>;  // the first of its refs

  static constexpr unsigned shift =
      static_cast<unsigned>(std::bit_width(Memory::chunk_bytes / sizeof(T))) - 1;
  static constexpr std::uint64_t chunk_elements = std::uint64_t{1} << shift;
  static constexpr std::uint64_t most_elements =
      Heap::max_block_bytes / sizeof(Ref<Chunk>) * chunk_elements;

  /// Makes a table of `count` copies of `element`, durable with the creation.
  template <class Creation>
  [[nodiscard]] Ref<Directory> create(Creation& creation, Memory& memory, std::uint64_t count,
                                      const T& element) {
    count_ = count;
    auto* const directory = creation.template make<Directory>(directory_bytes());
    for (std::uint64_t c = 0; c < chunks(); ++c) {
      T* const chunk = creation.template make<T>(chunk_bytes(c));
      for (std::uint64_t i = 0; i < elements(c); ++i) new (chunk + i) T(element);
      new (directory + c) Directory(memory.ref(chunk));
      chunks_.push_back(chunk);
    }
    return memory.ref(directory);
  }

  /// Recovery. False: a ref leads nowhere, or there cannot be so many elements.
  [[nodiscard]] bool reopen(Walk<Memory>& walk, Ref<Directory> ref, std::uint64_t count) {
    if (count > most_elements) return false;
    count_ = count;
    const Directory* const directory = walk.template enter<Directory>(ref, directory_bytes());
    for (std::uint64_t c = 0; directory != nullptr && c < chunks(); ++c) {
      chunks_.push_back(walk.template enter<T>(directory[c], chunk_bytes(c)));
      if (chunks_.back() == nullptr) return false;
    }
    return directory != nullptr;
  }
  /// The blocks of the table itself, in a walk that does not recover: `reopen` has entered them.
  void walk(Walk<Memory>& walk, Ref<Directory> ref) const {
    if (walk.recovers()) return;
    Directory* const directory = walk.template enter<Directory>(ref, directory_bytes());
    for (std::uint64_t c = 0; directory != nullptr && c < chunks(); ++c)
      static_cast<void>(walk.template enter<T>(directory[c], chunk_bytes(c)));
  }

  [[nodiscard]] T& operator[](std::uint64_t i) const noexcept {
    return chunks_[i >> shift][i & (chunk_elements - 1)];
  }
  [[nodiscard]] std::uint64_t size() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept {
    return chunks_.capacity() * sizeof(T*);
  }

 private:
  [[nodiscard]] std::uint64_t chunks() const noexcept {
    return (count_ + chunk_elements - 1) >> shift;
  }
  [[nodiscard]] std::uint64_t elements(std::uint64_t chunk) const noexcept {
    return chunk + 1 < chunks() ? chunk_elements : count_ - (chunk << shift);
  }
  [[nodiscard]] std::size_t chunk_bytes(std::uint64_t chunk) const noexcept {
    return elements(chunk) * sizeof(T);
  }
  [[nodiscard]] std::size_t directory_bytes() const noexcept {
    return chunks() * sizeof(Directory);
  }

  std::uint64_t count_ = 0;
  std::vector<T*> chunks_;
};

}  // namespace perdure::structure

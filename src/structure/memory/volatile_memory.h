// The two volatile modes: nodes in DRAM, or in memory of the pool's medium through memkind.
// Pointers are plain, a change is a store, nothing is flushed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "pm/persist.h"
#include "pool/mapping.h"
#include "pool/memkind_pool.h"
#include "structure/memory/refs.h"

namespace perdure::structure {

/// malloc.
class DramSource {
 public:
  static constexpr const char* mode = "dram";
  explicit DramSource(Pool*) {}
  [[nodiscard]] void* allocate(std::size_t bytes) noexcept {
    // Whole lines begin with one: the slots of a table.
    const bool huge = huge_pages_ && bytes >= huge_page_size;
    void* const block = huge ? std::aligned_alloc(huge_page_size, bytes)
                        : bytes % pm::cache_line_bytes == 0
                            ? std::aligned_alloc(pm::cache_line_bytes, bytes)
                            : std::malloc(bytes);
    if (huge && block != nullptr)
      request_huge_pages(static_cast<std::byte*>(block), bytes, Medium::anonymous);
    if (block != nullptr) count(1, bytes);
    return block;
  }
  void release(void* block, std::size_t bytes) noexcept {
    std::free(block);
    count(-1, bytes);
  }
  void use_huge_pages(bool wanted) noexcept { huge_pages_ = wanted; }
  [[nodiscard]] std::uint64_t live_blocks() const noexcept { return usage().live_blocks; }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept { return usage().live_bytes; }

 private:
  void count(std::int64_t blocks, std::size_t bytes) noexcept { live_->add(blocks, bytes); }
  [[nodiscard]] HeapUsage usage() const noexcept {
    HeapUsage usage;
    live_->report(usage);
    return usage;
  }
  bool huge_pages_ = false;
  std::unique_ptr<LiveCount> live_ = std::make_unique<LiveCount>();
};

/// memkind on the pool's mapping.
class MemkindSource {
 public:
  static constexpr const char* mode = "pmem-volatile";
  explicit MemkindSource(Pool* pool) : heap_(static_cast<MemkindHeap&>(pool->heap())) {}
  [[nodiscard]] void* allocate(std::size_t bytes) noexcept { return heap_.allocate(bytes); }
  void release(void* block, std::size_t bytes) noexcept { heap_.release(block, bytes); }
  void use_huge_pages(bool) noexcept {}  // the pool has them
  [[nodiscard]] std::uint64_t live_blocks() const noexcept { return heap_.usage().live_blocks; }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept { return 0; }

 private:
  MemkindHeap& heap_;
};

template <class Source>
class VolatileMemory {
 public:
  template <class T>
  using Ref = PlainRef<T>;
  class Change;
  using Creation = Change;

  static constexpr const char* mode = Source::mode;
  static constexpr bool recovers = false;
  static constexpr bool lends_log = false;
  static constexpr std::size_t chunk_bytes = 32 << 20;  ///< of a table

  explicit VolatileMemory(Pool* pool) : source_(pool) {}

  template <class T>
  [[nodiscard]] T* at(PlainRef<T> ref) const noexcept {
    return ref.target;
  }
  template <class T>
  [[nodiscard]] PlainRef<T> ref(T* node) const noexcept {
    return {node};
  }
  template <class T>
  [[nodiscard]] PlainRef<T> null() const noexcept {
    return {};
  }

  void use_huge_pages(bool wanted) noexcept { source_.use_huge_pages(wanted); }
  [[nodiscard]] std::uint64_t live_blocks() const noexcept { return source_.live_blocks(); }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept { return source_.dram_bytes(); }
  void release(void* block, std::size_t bytes) noexcept { source_.release(block, bytes); }

 private:
  Source source_;
  std::vector<std::pair<void*, std::size_t>> made_;  ///< by the change under way
};

/// C1 of persistent_memory.h is all that takes back needs: nothing is stored before all is made.
template <class Source>
class VolatileMemory<Source>::Change {
 public:
  explicit Change(VolatileMemory& memory, bool = false) noexcept : memory_(memory) {}
  ~Change() {
    for (const auto& [block, bytes] : memory_.made_) memory_.source_.release(block, bytes);
    memory_.made_.clear();
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

  template <class T>
  [[nodiscard]] T* make(std::size_t bytes = sizeof(T)) {
    void* const block = memory_.source_.allocate(bytes);
    if (block == nullptr) throw NoRoom{};
    memory_.made_.emplace_back(block, bytes);
    return new (block) T;
  }
  template <class T>
  void link(PlainRef<T>& ref, PlainRef<T> to) noexcept {
    ref = to;
  }
  template <class T>
  void set(T& field, const std::type_identity_t<T>& value) noexcept {
    field = value;
  }
  template <class Stores>
  void edit(const void*, std::size_t, Stores&& stores) {
    stores();
  }
  template <class Stores>
  void edit(std::initializer_list<Range>, Stores&& stores) {
    stores();
  }
  template <class Stores>
  void fill(const void*, std::size_t, Stores&& stores) {
    stores();
  }
  /// Frees at the end of the change what nothing leads to any more.
  template <class T>
  void drop(T* node, std::size_t bytes = sizeof(T)) noexcept {
    memory_.source_.release(node, bytes);
  }
  void commit() noexcept { memory_.made_.clear(); }

 private:
  VolatileMemory& memory_;
};

using DramMemory = VolatileMemory<DramSource>;
using PmemVolatileMemory = VolatileMemory<MemkindSource>;

}  // namespace perdure::structure

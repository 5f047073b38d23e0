// The two volatile modes: nodes in DRAM, or in memory of the pool's medium through memkind.
// Pointers are plain, a change is a store, nothing is flushed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <type_traits>

#include "pm/persist.h"
#include "pool/mapping.h"
#include "pool/memkind_pool.h"
#include "structure/memory/made.h"
#include "structure/memory/refs.h"

namespace perdure::structure {

/// Nodes from the heap of a memkind pool; without one from `new`, which is malloc, and under
/// simulation memory of the simulation's.
class VolatileMemory {
 public:
  template <class T>
  using Ref = PlainRef<T>;
  class Change;
  using Creation = Change;
  class Loading {  ///< nothing to wait for
   public:
    explicit Loading(VolatileMemory&) noexcept {}
  };

  static constexpr const char* dram_mode = "dram";
  static constexpr const char* pmem_mode = "pmem-volatile";
  static constexpr bool recovers = false;
  static constexpr bool lends_log = false;
  static constexpr std::size_t chunk_bytes = 32 << 20;  ///< of a table

  explicit VolatileMemory(Pool* pool)
      : heap_(pool != nullptr && pool->heap_kind() == HeapKind::memkind
                  ? static_cast<MemkindHeap*>(&pool->heap())
                  : nullptr) {}

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

  /// Of DRAM; a pool has its own.
  void use_huge_pages(bool wanted) noexcept { huge_pages_ = wanted; }
  [[nodiscard]] PMEMobjpool* objects() const noexcept { return nullptr; }
  /// Of this structure; its pool may hold others.
  [[nodiscard]] std::uint64_t live_blocks() const noexcept { return usage().live_blocks; }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept {
    return heap_ == nullptr ? usage().live_bytes : 0;
  }
  [[nodiscard]] void* allocate(std::size_t bytes) noexcept {
    void* const block = heap_ == nullptr ? allocate_dram(bytes) : heap_->allocate(bytes);
    if (block != nullptr) live_->add(1, bytes);
    return block;
  }
  void release(void* block, std::size_t bytes) noexcept {
    if (heap_ == nullptr)
      ::operator delete(block, alignment_of(bytes));
    else
      heap_->release(block, bytes);
    live_->add(-1, bytes);
  }

 private:
  [[nodiscard]] HeapUsage usage() const noexcept {
    HeapUsage usage;
    live_->report(usage);
    return usage;
  }
  [[nodiscard]] void* allocate_dram(std::size_t bytes) const noexcept {
    void* const block = ::operator new(bytes, alignment_of(bytes), std::nothrow);
    if (huge_pages_ && bytes >= huge_page_size && block != nullptr)
      request_huge_pages(static_cast<std::byte*>(block), bytes, Medium::anonymous);
    return block;
  }
  // Whole lines begin with one: the slots of a table.
  [[nodiscard]] std::align_val_t alignment_of(std::size_t bytes) const noexcept {
    if (huge_pages_ && bytes >= huge_page_size) return std::align_val_t{huge_page_size};
    return std::align_val_t{bytes % pm::cache_line_bytes == 0 ? pm::cache_line_bytes : 16};
  }

  MemkindHeap* heap_;  ///< null: DRAM
  bool huge_pages_ = false;
  std::unique_ptr<LiveCount> live_ = std::make_unique<LiveCount>();
};

/// C1 of persistent_memory.h is all that takes back needs: nothing is stored before all is made.
class VolatileMemory::Change {
 public:
  explicit Change(VolatileMemory& memory, bool = false) noexcept : memory_(memory) {}
  ~Change() {
    if (!made_.empty()) give_back();
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

  template <class T>
  [[nodiscard]] T* make(std::size_t bytes = sizeof(T)) {
    void* const block = memory_.allocate(bytes);
    if (block == nullptr) throw NoRoom{};
    made_.add({block, bytes});
    return new (block) T;
  }
  template <class T>
  void link(PlainRef<T>& ref, PlainRef<T> to) noexcept {
    ref = to;
  }
  template <class T>
  void link(KeyedRef<PlainRef<T>>& ref, const KeyedRef<PlainRef<T>>& to) noexcept {
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
    memory_.release(node, bytes);
  }
  void commit() noexcept { made_.clear(); }

 private:
  [[gnu::noinline]] void give_back() noexcept {
    for (const Range& block : made_.blocks())
      memory_.release(const_cast<void*>(block.begin), block.bytes);
  }

  VolatileMemory& memory_;
  Made<Range> made_;
};

}  // namespace perdure::structure

// MemkindPool: memory of a medium used as volatile memory: the mapping of a file without a name,
// with memkind's allocator (jemalloc) on it. Nothing outlives it.
//
// memkind is what became of libvmem. No other file knows of it, so that another allocator for given
// memory can take its place.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pool/live_count.h"
#include "pool/mapping.h"
#include "pool/pool.h"

struct memkind;

namespace perdure {

class MemkindHeap final : public Heap {
 public:
  /// The memory outlives the heap. Errors: failed (memkind refuses).
  [[nodiscard]] static Result<std::unique_ptr<MemkindHeap>> over(std::byte* base,
                                                                 std::uint64_t bytes);
  ~MemkindHeap() override;

  /// A block aligned to 16 bytes; null: out of space.
  [[nodiscard]] void* allocate(std::size_t bytes) noexcept;
  void release(void* block, std::size_t bytes) noexcept;

  [[nodiscard]] Reservation reserve(std::size_t bytes) noexcept override;
  void publish(std::span<Reservation> blocks, std::atomic<std::uint64_t>* word,
               std::uint64_t value) noexcept override;
  void cancel(Reservation& block) noexcept override { free(block.offset, block.bytes); }
  void free(std::uint64_t offset, std::size_t bytes) noexcept override;
  [[nodiscard]] bool mark(std::uint64_t, std::size_t) noexcept override { return false; }
  [[nodiscard]] bool is_marked(std::uint64_t) const noexcept override { return false; }
  Result<std::uint64_t> sweep() override { return std::uint64_t{0}; }
  [[nodiscard]] HeapUsage usage() const noexcept override;
  [[nodiscard]] std::uint64_t capacity_bytes() const noexcept override { return bytes_; }
  [[nodiscard]] const char* name() const noexcept override { return "memkind"; }

 private:
  MemkindHeap(std::byte* base, std::uint64_t bytes) : base_(base), bytes_(bytes) {}

  std::byte* base_;
  std::uint64_t bytes_;
  memkind* kind_ = nullptr;
  LiveCount live_;
};

class MemkindPool final : public Pool {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Pool>> create(const PoolOptions& options);

  ~MemkindPool() override;
  Result<void> close() override;
  [[nodiscard]] std::uint64_t huge_page_bytes() const override;
  [[nodiscard]] std::string uuid() const override { return {}; }
  Result<void> add_root(std::string_view name, Reservation& block) override;
  [[nodiscard]] std::vector<PoolRoot> roots() const override { return {}; }
  Result<void> root_recovered(std::string_view name) override;

 private:
  MemkindPool() = default;

  Mapping mapping_;
};

}  // namespace perdure

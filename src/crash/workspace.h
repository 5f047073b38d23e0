// Workspace: the memory in which cases are run and their crash states made and recovered.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "crash/image.h"
#include "crash/subject.h"
#include "crash/watch.h"

namespace perdure::crash {

/// The memory that cases of one pool size share.
class Workspace {
 public:
  explicit Workspace(std::size_t pool_bytes, HeapKind heap = HeapKind::slab);
  /// Errors: of making a pool with libpmemobj's heap.
  [[nodiscard]] const Result<void>& ready() const noexcept { return ready_; }
  [[nodiscard]] const Memory& live() const noexcept { return live_; }
  [[nodiscard]] Image& image() noexcept { return image_; }
  [[nodiscard]] Watch& watch() noexcept { return watch_; }
  /// What the pool's memory holds before the pool is made: code that relies on zeros must write and
  /// flush them. `small`: numbers that look like counts and versions.
  [[nodiscard]] std::span<const std::byte> garbage(bool small);

 private:
  Memory live_;
  Image image_;
  Watch watch_;
  Result<void> ready_;
  std::array<std::vector<std::byte>, 2> garbage_;  ///< made at first use
};

/// One for each size of pool, made at first use.
class Workspaces {
 public:
  explicit Workspaces(HeapKind heap) : heap_(heap) {}
  [[nodiscard]] Workspace& of(std::size_t pool_bytes) {
    return workspaces_.try_emplace(pool_bytes, pool_bytes, heap_).first->second;
  }

 private:
  HeapKind heap_;
  std::map<std::size_t, Workspace> workspaces_;
};

}  // namespace perdure::crash

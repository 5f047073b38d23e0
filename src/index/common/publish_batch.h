// PublishBatch: blocks that bulk loads publish many at a time, before anything leads to them. A
// crash leaves them to the sweep of recovery.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "pm/pm.h"
#include "pool/heap.h"

namespace perdure {

class PublishBatch {
 public:
  explicit PublishBatch(Heap& heap) noexcept : heap_(heap) {}

  /// Takes a reserved block; publishes those before it when the batch is full.
  void hold(const Reservation& block) noexcept {
    if (held_ == block_.size()) publish();
    block_[held_++] = block;
  }

  /// Publishes what is held, and with it `word`. Everything that `word` leads to was flushed.
  void publish(std::atomic<std::uint64_t>* word = nullptr, std::uint64_t value = 0) noexcept {
    pm::fence();
    if (held_ == 0 && word != nullptr)
      pm::store_persist(*word, value);
    else
      heap_.publish(std::span(block_).first(held_), word, value);
    held_ = 0;
  }

 private:
  Heap& heap_;
  std::array<Reservation, 64> block_;
  std::size_t held_ = 0;
};

}  // namespace perdure

// A list that needs no memory of its own as long as it is short, as the way down a trie is.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>

#include "core/assert.h"

namespace perdure::hot {

template <class T, std::size_t usual>
class ShortList {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  ShortList() noexcept = default;
  ShortList(const ShortList&) = delete;
  ShortList& operator=(const ShortList&) = delete;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return items_[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return items_[i]; }
  [[nodiscard]] T& back() noexcept { return items_[size_ - 1]; }
  [[nodiscard]] const T& back() const noexcept { return items_[size_ - 1]; }
  [[nodiscard]] T* begin() noexcept { return items_; }
  [[nodiscard]] const T* begin() const noexcept { return items_; }
  [[nodiscard]] const T* end() const noexcept { return items_ + size_; }

  void clear() noexcept { size_ = 0; }
  void shrink(std::size_t size) noexcept {
    PERDURE_ASSERT(size <= size_);
    size_ = size;
  }
  void pop_back() noexcept { shrink(size_ - 1); }
  /// Of `usual` items, those from `begin()` to before `end` were written.
  void end_at(T* end) noexcept {
    size_ = static_cast<std::size_t>(end - items_);
    PERDURE_ASSERT(size_ <= usual);
  }
  /// No memory: std::bad_alloc, and nothing is added.
  void push_back(T item) {
    make_room();
    items_[size_++] = item;
  }
  /// The next `push_back` cannot fail. No memory: std::bad_alloc.
  void make_room() {
    if (size_ == capacity_) [[unlikely]]
      grow();
  }

 private:
  [[gnu::noinline]] void grow() {
    auto more = std::make_unique<T[]>(2 * capacity_);
    std::copy(items_, items_ + size_, more.get());
    more_ = std::move(more);
    items_ = more_.get();
    capacity_ *= 2;
  }

  std::size_t size_ = 0;
  std::size_t capacity_ = usual;
  std::array<T, usual> room_;
  T* items_ = room_.data();
  std::unique_ptr<T[]> more_;
};

}  // namespace perdure::hot

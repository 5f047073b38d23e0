// Fibers: the threads of an explored run, on one OS thread. One runs until it hands over.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace perdure::crash {

class Fibers {
 public:
  static constexpr std::size_t stack_bytes = std::size_t{256} << 10;

  Fibers();
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  static constexpr unsigned nobody = ~0U;

  /// Runs `job(i)` on `count` fibers, beginning with `first`; when one has ended, `next()` names
  /// the next one, or `nobody`: the others are abandoned. Returns when all have ended, or when one
  /// has called `abandon`.
  void run(unsigned count, unsigned first, const std::function<void(unsigned)>& job,
           const std::function<unsigned()>& next);

  /// From inside a fiber: lets another that has not ended go on. Returns when this one's turn
  /// comes.
  void switch_to(unsigned fiber);
  /// From inside a fiber: gives the whole run up. Nothing on the fibers' stacks is destroyed.
  [[noreturn]] void abandon();

  /// The stack of the fiber that runs.
  [[nodiscard]] std::span<std::byte> stack() const noexcept;
  [[nodiscard]] unsigned running() const noexcept { return running_; }
  [[nodiscard]] bool inside() const noexcept { return inside_; }
  [[nodiscard]] bool ended(unsigned fiber) const noexcept { return fiber_[fiber].ended; }
  [[nodiscard]] unsigned count() const noexcept { return static_cast<unsigned>(fiber_.size()); }

 private:
  struct Fiber {
    void* context = nullptr;
    bool ended = false;
  };
  struct Stack;
  struct Entry;

  void go_to(unsigned fiber);

  std::vector<Fiber> fiber_;
  std::vector<std::unique_ptr<Stack>> stacks_;  ///< kept between runs
  const std::function<void(unsigned)>* job_ = nullptr;
  const std::function<unsigned()>* next_ = nullptr;
  void* main_ = nullptr;
  unsigned running_ = 0;
  bool inside_ = false;
};

}  // namespace perdure::crash

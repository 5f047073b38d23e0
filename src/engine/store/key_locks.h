// KeyLocks: locks in DRAM for keys and entries, by their hash. A thread that holds one waits for no
// second, it only tries (`Held::try_also`), so nobody waits in a circle.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "index/common/record_store.h"
#include "pm/pm.h"

namespace perdure::engine {

class KeyLocks {
 public:
  class Held {
   public:
    /// Waits.
    Held(KeyLocks& locks, std::string_view key) : locks_(locks), first_(&locks.of(key)) {
      [[maybe_unused]] const bool held = first_->lock();
      PERDURE_ASSERT(held);
    }
    ~Held() {
      first_->unlock_unchanged();
      for (pm::VersionLock* lock : more_) lock->unlock_unchanged();
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

    /// False: another thread has it.
    [[nodiscard]] bool try_also(std::string_view key) {
      pm::VersionLock& lock = locks_.of(key);
      if (&lock == first_) return true;
      for (const pm::VersionLock* held : more_)
        if (held == &lock) return true;
      if (!lock.try_lock()) return false;
      more_.push_back(&lock);
      return true;
    }

   private:
    KeyLocks& locks_;
    pm::VersionLock* const first_;
    std::vector<pm::VersionLock*> more_;
  };

 private:
  static constexpr std::size_t count = 1024;
  struct alignas(64) Lock {
    pm::VersionLock lock;
  };
  [[nodiscard]] pm::VersionLock& of(std::string_view key) noexcept {
    return (*lock_)[hash_of(key) % count].lock;
  }

  std::unique_ptr<std::array<Lock, count>> lock_ = std::make_unique<std::array<Lock, count>>();
};

}  // namespace perdure::engine

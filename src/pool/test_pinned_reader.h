// PinnedReader: a thread that lost its core in the middle of an operation, for tests.
#pragma once

#include <atomic>
#include <thread>

#include "pool/epoch.h"

namespace perdure {

/// Pinned from construction to destruction.
class PinnedReader {
 public:
  explicit PinnedReader(Epochs& epochs)
      : thread_([this, &epochs] {
          const Epochs::Guard guard(epochs);
          pinned_.test_and_set();
          pinned_.notify_one();
          goes_on_.wait(false);
        }) {
    pinned_.wait(false);
  }
  ~PinnedReader() {
    goes_on_.test_and_set();
    goes_on_.notify_one();
  }
  PinnedReader(const PinnedReader&) = delete;
  PinnedReader& operator=(const PinnedReader&) = delete;

 private:
  std::atomic_flag pinned_;
  std::atomic_flag goes_on_;
  std::jthread thread_;
};

}  // namespace perdure

// Stack: values, of which the last to come is the first to go. Future work of study pmemids.
//
// No index: it has no keys, so it is made by the functions below, and not by the registry. What
// returns is durable in the two persistent modes, and nothing is returned that a power cut could
// take back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"
#include "index/index.h"
#include "pool/pool.h"

namespace perdure::structure {

class Stack {
 public:
  Stack() = default;
  virtual ~Stack() = default;
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  /// ok | out_of_space | invalid (longer than max_slot_value_bytes).
  virtual Outcome push(std::string_view value) = 0;
  /// Takes the value that came last. ok | not_found: there is none, and `value` is untouched.
  virtual Outcome pop(std::string& value) = 0;
  /// Copies the value that came last. ok | not_found.
  virtual Outcome top(std::string& value) = 0;
  /// Appends to a cleared `out` all values, the last to come first, with 0, 1, 2 ... for keys.
  virtual void list(SlotScan& out) = 0;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// As of an index (index/index.h).
  [[nodiscard]] virtual Result<void> check_invariants() const = 0;
};

/// Where a stack keeps its elements and how.
struct StackPlace {
  Pool* pool = nullptr;  ///< not of `dram`; with the heap that the mode needs
  std::string root_name = "stack";
  std::string mode = "pmem-trans";  ///< or "pmem-persist", "pmem-volatile", "dram"
  bool offsets = false;             ///< 8-byte offsets on media, not 16-byte object ids
};

/// Errors: usage (no such mode, another heap), exists, out_of_space.
[[nodiscard]] Result<std::unique_ptr<Stack>> create_stack(const StackPlace& place);
/// In either persistent mode, whichever it was made in. Errors: usage, not_found, foreign, corrupt,
/// newer.
[[nodiscard]] Result<std::unique_ptr<Stack>> recover_stack(const StackPlace& place);

}  // namespace perdure::structure

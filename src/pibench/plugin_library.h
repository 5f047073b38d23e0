// PluginLibrary: a loaded wrapper and its tree, with calls that survive what it throws.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/result.h"
#include "pibench/plugin.h"
#include "pibench/tree_api.h"
#include "pm/persist.h"
#include "pm/thread.h"

namespace perdure {

class PluginLibrary {
 public:
  [[nodiscard]] static Result<std::unique_ptr<PluginLibrary>> load(const PluginOptions& options);
  ~PluginLibrary();
  PluginLibrary(const PluginLibrary&) = delete;
  PluginLibrary& operator=(const PluginLibrary&) = delete;

  /// The wrapper's answer, or that the call broke U1 or U2.
  enum class Answer : std::uint8_t { yes, no, broken };

  // Keys and values have the lengths of the options. What is returned points into this thread's
  // buffers and lasts until its next call.
  [[nodiscard]] Answer find(std::string_view key, std::string_view& value);
  [[nodiscard]] Answer insert(std::string_view key, std::string_view value);
  [[nodiscard]] Answer update(std::string_view key, std::string_view value);
  [[nodiscard]] Answer remove(std::string_view key);
  /// The records the wrapper handed out, at most `count`; empty when it handed out none.
  [[nodiscard]] std::string_view scan(std::string_view key, std::size_t count,
                                      std::size_t& claimed);

  [[nodiscard]] const PluginOptions& options() const noexcept { return options_; }
  [[nodiscard]] std::size_t record_bytes() const noexcept {
    return options_.key_bytes + options_.value_bytes;
  }
  [[nodiscard]] PluginViolations violations() const noexcept;
  void count_impossible_scan() noexcept { count(impossible_scans_); }
  /// Successful inserts minus successful removes, as claimed.
  [[nodiscard]] std::uint64_t claimed_records() const noexcept;

 private:
  static constexpr std::size_t guard_bytes = 64;
  static constexpr char guard_pattern = '\xa5';

  // The options that the wrapper sees: a fork that reads further finds zeroes.
  struct ForeignOptions {
    alignas(tree_options_t) std::array<std::byte, sizeof(tree_options_t) + 192> room{};
  };

  // One thread's: the wrapper sees the same addresses in every call, as with PiBench. `found` is
  // guard, value, guard, and room beyond it, so that an overrun by a whole value harms nothing.
  struct alignas(pm::cache_line_bytes) Buffers {
    Buffers() noexcept { found.fill(guard_pattern); }
    [[nodiscard]] char* value() noexcept { return found.data() + guard_bytes; }
    [[nodiscard]] bool guards_hold(std::size_t value_bytes) const noexcept;

    std::array<char, 2 * guard_bytes + 2 * max_plugin_value_bytes> found;
    std::array<char, max_plugin_key_bytes> key;
    std::array<char, max_plugin_value_bytes> input;
    std::atomic<std::int64_t> records{0};
  };

  explicit PluginLibrary(const PluginOptions& options) : options_(options) {}

  [[nodiscard]] Result<void> create(tree_api* (*create)(const tree_options_t&));
  [[nodiscard]] Buffers& mine();
  template <class Call>
  [[nodiscard]] Answer guarded(Call&& call) noexcept;
  static void count(std::atomic<std::uint64_t>& counter) noexcept {
    counter.fetch_add(1, std::memory_order_relaxed);
  }

  PluginOptions options_;
  std::unique_ptr<ForeignOptions> foreign_options_ = std::make_unique<ForeignOptions>();
  tree_api* tree_ = nullptr;
  std::array<std::unique_ptr<Buffers>, pm::max_threads> buffers_;
  std::atomic<std::uint64_t> overruns_{0};
  std::atomic<std::uint64_t> exceptions_{0};
  std::atomic<std::uint64_t> impossible_scans_{0};
  std::atomic<std::uint64_t> scans_without_records_{0};
  std::atomic<std::uint64_t> scans_of_nothing_{0};
};

}  // namespace perdure

// Trace: a trace file, mapped and checked from its beginning to its end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "engine/trace/format.h"

namespace perdure::engine {

class Trace {
 public:
  /// Reads the whole file once. Errors: not_found, io, foreign, newer, corrupt.
  [[nodiscard]] static Result<std::shared_ptr<const Trace>> open(const std::string& path);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const TraceHeader& header() const noexcept { return header_; }
  /// Nothing: the recording was cut off (T1).
  [[nodiscard]] const std::optional<TraceEnd>& end() const noexcept { return end_; }
  /// Operations.
  [[nodiscard]] std::size_t size() const noexcept { return offset_.size(); }
  /// The record of one, for `decode_again`.
  [[nodiscard]] std::string_view record(std::size_t number) const noexcept;

  /// Operations of each of `threads` in their order: those on one key are one thread's, and so are
  /// those on keys that have ever had the same unique entry, whose order decides who has it.
  /// Errors: unsupported, if it takes an index away, which has to happen between all others.
  [[nodiscard]] Result<std::vector<std::vector<std::uint32_t>>> deal(unsigned threads) const;

 private:
  Trace() = default;
  [[nodiscard]] Result<void> map();
  [[nodiscard]] Result<void> read();
  [[nodiscard]] Error damaged(std::size_t at) const;

  std::string path_;
  std::string_view bytes_;
  TraceHeader header_;
  std::optional<TraceEnd> end_;
  std::vector<std::uint64_t> offset_;
};

}  // namespace perdure::engine

// Session: one client's conversation without its socket, so that protocols are tested and fuzzed
// as functions from bytes to bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/result.h"

namespace perdure::server {

/// Bytes that one request may have, with everything around it.
inline constexpr std::size_t max_frame_bytes = 48U << 20;

/// A session stops taking requests once this much of its output is not yet sent.
inline constexpr std::size_t output_mark_bytes = 8U << 20;

class Session {
 public:
  Session() = default;
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Takes whole requests at the beginning of `input` and appends their replies to `output`, until
  /// no whole request is left or `output` exceeds `output_mark_bytes`. Returns how many bytes it
  /// took; the next call's input begins with those that it left, and may be no longer than they.
  /// Errors: the connection ends with this reason, once `output` is sent.
  virtual Result<std::size_t> consume(std::string_view input, std::string& output) = 0;
  /// True when the client has asked for the end: the connection ends once the output is sent.
  [[nodiscard]] virtual bool wants_end() const noexcept { return false; }
};

}  // namespace perdure::server

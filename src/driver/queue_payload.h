// Payloads of a queue's run. Their content follows from the push alone, so that whoever pops one
// can tell whose it is and whether it is whole, and nobody keeps a table.
//
//   byte 0       8         256     264                    size - 8
//        | stamp | filler ... | stamp | filler ... | ... ... | stamp |
//
// The stamp is producer << 48 | number; a payload of fewer than 8 bytes has that many of it. The
// filler tells producers apart. A new push changes one word in 256 bytes and the last one, so that
// making it costs little beside pushing it, and a payload of which a part is older differs. The
// last stamp is left out where it would overlap the one before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockfree/base/durable_queue.h"

namespace perdure::driver {

/// Shorter payloads do not say which push they are of.
inline constexpr std::size_t least_telling_payload_bytes = 8;

/// One producer's payload, made anew for each push in the same place.
class QueuePayload {
 public:
  QueuePayload(std::uint32_t producer, std::size_t bytes);

  /// The payload of the producer's push with this number, until the next call.
  [[nodiscard]] std::string_view of(std::uint64_t number) noexcept;

 private:
  const std::uint32_t producer_;
  std::string text_;
};

/// Which push a payload is of; nothing when it is not whole, or of no push. `bytes`: the length
/// that was pushed, at least `least_telling_payload_bytes`.
[[nodiscard]] std::optional<PushTag> push_of(std::string_view payload, std::size_t bytes);

}  // namespace perdure::driver

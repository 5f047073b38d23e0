#include "driver/queue_payload.h"

#include <algorithm>
#include <cstring>

#include "core/rng.h"

namespace perdure::driver {
namespace {

constexpr std::size_t word = sizeof(std::uint64_t);
constexpr std::size_t stamp_distance = 256;
constexpr unsigned number_bits = 48;

}  // namespace

QueuePayload::QueuePayload(std::uint32_t producer, std::size_t bytes)
    : producer_(producer), text_(bytes, '\0') {
  const std::uint64_t filler = mix64(producer + 1ULL);
  for (std::size_t at = 0; at < bytes; at += word)
    std::memcpy(text_.data() + at, &filler, std::min(word, bytes - at));
}

std::string_view QueuePayload::of(std::uint64_t number) noexcept {
  const std::uint64_t stamp = std::uint64_t{producer_} << number_bits | number;
  const std::size_t bytes = text_.size();
  if (bytes < word) {
    std::memcpy(text_.data(), &stamp, bytes);
    return text_;
  }
  std::size_t free = 0;  // after the last stamp so far: two that overlap would spoil each other
  for (std::size_t at = 0; at + word <= bytes; at += stamp_distance) {
    std::memcpy(text_.data() + at, &stamp, word);
    free = at + word;
  }
  if (free + word <= bytes) std::memcpy(text_.data() + bytes - word, &stamp, word);
  return text_;
}

std::optional<PushTag> push_of(std::string_view payload, std::size_t bytes) {
  if (payload.size() != bytes || bytes < word) return {};
  std::uint64_t stamp = 0;
  std::memcpy(&stamp, payload.data(), word);
  const PushTag tag{static_cast<std::uint32_t>(stamp >> number_bits),
                    stamp & ((1ULL << number_bits) - 1)};
  if (tag.number == 0 || QueuePayload(tag.producer, bytes).of(tag.number) != payload) return {};
  return tag;
}

}  // namespace perdure::driver

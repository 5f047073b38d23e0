// What the bounded queues have on media: slots of a header and a payload each, and a mark for each
// thread.
//
//   Header, one line    0     8     12         16       24               64
//                       | seq | len | producer | number | short payload  |
//   Mark, one line      0     8        16                                64
//                       | seq | number | zero                            |
//   Log, two lines      0      8      16    24                  64       128
//                       | what | slot | old | zero              | header |
//   payload             payload_bytes rounded up to 256 B, aligned to 256 B; none where every
//                       payload is short
//   Directory           0          8        16
//                       | checksum | chunks | offset[chunks]             |
//                       of the marks, the logs if there are any, chunks of headers, of payloads
//
// M1  a header with the bit `unfinished` in its seq says nothing. All of a header but its seq is
//     stored while that bit is set, and in the same line, so that what a power cut leaves of a
//     header without the bit is whole: stores to one line become durable in their order.
// M2  seqs order the pushes of all time: no two pushes have the same. A header with seq s was
// pushed
//     as number s; it is present <=> s is greater than the seq of every mark. A mark never goes
//     back, also when another thread inherits it.
// M3  the newest push that took effect of each producer is in a header, or its number is in the
//     mark with the producer's number.
// M4  a header and a mark are written within one line; payloads are durable before the seq of their
//     header.
//
// Section 6.3 of the study keeps the positions of a thread's present operation per thread. A thread
// has one of these and a queue many operations, so here the status belongs to the slot.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "lockfree/base/durable_queue.h"
#include "pm/pm.h"
#include "pool/heap.h"

namespace perdure::lockfree {

inline constexpr std::size_t inline_bytes = 40;
inline constexpr std::uint64_t unfinished = std::uint64_t{1} << 63;
/// No queue pushes so often: a century of 100 million a second. What is beyond is damage, and the
/// seqs that follow could run into `unfinished`. It is far from every small number with some bits
/// flipped, so a queue that is damaged unnoticed does not come upon it after a few pushes.
inline constexpr std::uint64_t largest_seq = 0x0555'5555'5555'5555;

struct SlotHeader {
  std::atomic<std::uint64_t> seq;
  std::uint32_t len;
  std::uint32_t producer;
  std::uint64_t number;  ///< of the producer's push; 0: it has no tag
  std::array<std::byte, inline_bytes> short_payload;
};
static_assert(sizeof(SlotHeader) == pm::cache_line_bytes);
static_assert(offsetof(SlotHeader, len) == 8 && offsetof(SlotHeader, producer) == 12);
static_assert(offsetof(SlotHeader, number) == 16 && offsetof(SlotHeader, short_payload) == 24);

struct Mark {
  std::atomic<std::uint64_t> seq;
  std::atomic<std::uint64_t> number;
  std::array<std::uint64_t, 6> zero;
};
static_assert(sizeof(Mark) == pm::cache_line_bytes && offsetof(Mark, number) == 8);

/// What a transaction under way has changed, and how that was before.
struct UndoLog {
  enum class What : std::uint64_t { nothing, header, mark };
  std::atomic<std::uint64_t> what;  ///< a What; stored last, in the line of `slot` and `old`
  std::uint64_t slot;               ///< number of the header or mark
  std::uint64_t old;  ///< header: its unfinished seq, which is used only once; mark: seq
  std::array<std::uint64_t, 5> zero;
  std::array<std::byte, sizeof(SlotHeader)> header;
};
static_assert(sizeof(UndoLog) == 2 * pm::cache_line_bytes && offsetof(UndoLog, header) == 64);

struct Directory {
  std::uint64_t checksum;
  std::uint64_t chunks;
};
static_assert(sizeof(Directory) == 16);

/// What the options make of it.
struct SlotShape {
  std::uint64_t slots = 0;
  std::uint64_t payload_bytes = 0;
  bool has_logs = false;

  static constexpr std::uint64_t headers_per_chunk = Heap::max_block_bytes / sizeof(SlotHeader);
  static constexpr std::uint64_t mark_bytes = pm::max_threads * sizeof(Mark);
  static constexpr std::uint64_t log_bytes = pm::max_threads * sizeof(UndoLog);

  /// Bytes from one payload to the next; 0: none has a place of its own.
  [[nodiscard]] std::uint64_t stride() const noexcept {
    if (payload_bytes <= inline_bytes) return 0;
    return (payload_bytes + pm::media_block_bytes - 1) / pm::media_block_bytes *
           pm::media_block_bytes;
  }
  /// A power of two.
  [[nodiscard]] std::uint64_t payloads_per_chunk() const noexcept {
    return stride() == 0 ? 1 : std::bit_floor(Heap::max_block_bytes / stride());
  }
  [[nodiscard]] std::uint64_t header_chunks() const noexcept {
    return (slots + headers_per_chunk - 1) / headers_per_chunk;
  }
  [[nodiscard]] std::uint64_t payload_chunks() const noexcept {
    return stride() == 0 ? 0 : (slots + payloads_per_chunk() - 1) / payloads_per_chunk();
  }
  [[nodiscard]] std::uint64_t header_bytes(std::uint64_t chunk) const noexcept {
    return part(chunk, headers_per_chunk) * sizeof(SlotHeader);
  }
  [[nodiscard]] std::uint64_t payload_chunk_bytes(std::uint64_t chunk) const noexcept {
    return part(chunk, payloads_per_chunk()) * stride();
  }
  [[nodiscard]] std::uint64_t chunks() const noexcept {
    return 1 + (has_logs ? 1 : 0) + header_chunks() + payload_chunks();
  }
  /// In the order of the directory.
  [[nodiscard]] std::uint64_t chunk_bytes(std::uint64_t chunk) const noexcept {
    if (chunk == 0) return mark_bytes;
    chunk -= 1;
    if (has_logs && chunk == 0) return log_bytes;
    if (has_logs) chunk -= 1;
    return chunk < header_chunks() ? header_bytes(chunk)
                                   : payload_chunk_bytes(chunk - header_chunks());
  }
  [[nodiscard]] std::uint64_t directory_bytes() const noexcept {
    return sizeof(Directory) + chunks() * sizeof(std::uint64_t);
  }

 private:
  [[nodiscard]] std::uint64_t part(std::uint64_t chunk, std::uint64_t per_chunk) const noexcept {
    const std::uint64_t left = slots - chunk * per_chunk;
    return left < per_chunk ? left : per_chunk;
  }
};

}  // namespace perdure::lockfree

// The format of a trace: what reached a document store, in an order in which it took effect
// (store/observer.h, V1).
//
//   byte 0        8         12    16      24          32       64
//        | magic  | version | crc | pool  | documents | index  | records ...
//                                   bytes   at start    name
//
//   record   0     4       8        9        10      11     12       16      20
//            | crc | bytes | action | status | flags | zero | answer | count | found |
//            24          28             32      36     40
//            | key bytes | second bytes | added | gone | key | second text | entries ...
//   entry    4 bytes: length * 2, plus 1 if it is unique; its text
//   end      as a record, with action 255: | operations | documents | entries | sum[2] |, 8 bytes
//            each from byte 12 on
//
// Numbers are little-endian. `bytes` is the length of all that follows it; `crc` is the CRC-32C of
// `bytes` and of that. The second text is the document of a write, and the end of a range.
//
// T1  The end is the last record, and is there only if the recording ended as it should.
// T2  A file that ends within a record was cut off: what stands before is a trace. One that
//     contradicts its checksums is damaged.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/store/digest.h"
#include "engine/store/observer.h"

namespace perdure::engine {

inline constexpr std::size_t trace_header_bytes = 64;
inline constexpr std::string_view trace_magic = "PERDTRAC";
inline constexpr std::uint32_t trace_version = 1;
/// Of a record, before what its checksum says anything about.
inline constexpr std::size_t trace_prefix_bytes = 8;
/// A document, a key, and more entries than a document can have.
inline constexpr std::size_t most_trace_record_bytes = std::size_t{256} << 20;

/// What a trace says of the store that it was recorded on.
struct TraceHeader {
  std::uint64_t pool_bytes = 0;
  std::uint64_t documents = 0;  ///< that it held already
  std::string index;            ///< its name in the registry

  [[nodiscard]] std::string encoded() const;
};

/// How a recording ended.
struct TraceEnd {
  std::uint64_t operations = 0;
  Digest digest;

  [[nodiscard]] std::string encoded() const;
};

struct TraceEntry {
  std::string_view text;
  bool unique = false;
};

/// One operation of a trace; its texts lie in the record that it was decoded from.
struct TraceOperation {
  Action action = Action::lookup;
  Status status = Status::ok;
  bool has_entries = false;
  bool removes = false;
  std::uint32_t answer = 0;  ///< CRC-32C of the document that a lookup or read found
  std::uint32_t count = 0;   ///< of scans: at most so many were asked for
  std::uint32_t found = 0;   ///< of scans
  std::string_view key;      ///< of ranges: where they begin
  std::string_view second;   ///< the document of a write; of ranges: where they end
  std::vector<TraceEntry> added, gone;

  /// It has a unique entry, so its place among operations on other keys matters.
  [[nodiscard]] bool has_unique() const noexcept;
};

/// Appends the record of an operation. A document that was found goes in as its checksum.
void append_record(const Observation& observation, std::string& out);

/// What stands at the beginning of `bytes`.
enum class TracePart : std::uint8_t { operation, end, cut_off, damaged };

/// Reads one record; `taken` is how long it is. Any bytes may be given.
[[nodiscard]] TracePart read_record(std::string_view bytes, TraceOperation& operation,
                                    TraceEnd& end, std::size_t& taken);
/// The same for a record that was read before, without its checksum.
void decode_again(std::string_view record, TraceOperation& operation);

/// Nothing: `bytes` do not begin with a header of this version. `version`: the one they have, or 0.
[[nodiscard]] std::optional<TraceHeader> read_header(std::string_view bytes,
                                                     std::uint32_t& version);

}  // namespace perdure::engine

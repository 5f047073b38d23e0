// What a document store is made with, and what it tells of itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "pool/heap.h"

namespace perdure::engine {

inline constexpr std::size_t max_document_bytes = 16U << 20;

/// How a write or a lookup ended.
enum class Status : std::uint8_t {
  ok,
  exists,        ///< insert: the key is present
  duplicate,     ///< another document has an entry that must be unique
  not_found,     ///< the key is absent
  out_of_space,  ///< no room in the pool; nothing has changed
  too_long,      ///< a key, an entry or a document exceeds the limits
  corrupt,       ///< the record does not agree with its checksum
  unchanged,     ///< `modify`: the change has declined
  busy,          ///< never returned: another thread holds the lock of a unique entry
};
[[nodiscard]] const char* name_of(Status status) noexcept;

struct StoreOptions {
  std::string index = "pactree";     ///< any registered persistent index of byte strings
  std::string root_name = "engine";  ///< the index's root is this and ".index"
  /// Of a new store, at most, 512 or more: a small pool has smaller segments. A record must fit in.
  std::uint64_t segment_bytes = Heap::max_block_bytes;
  unsigned threads = 1;        ///< that recovery may use
  bool serve_damaged = false;  ///< open although records are damaged, without them
  bool huge_pages = true;
};

/// What is wrong with one record or entry.
struct Finding {
  std::string what;
  std::uint64_t id = 0;
};

struct StoreUsage {
  std::uint64_t documents = 0;
  std::uint64_t live_bytes = 0;     ///< of records that are present, as they lie in segments
  std::uint64_t extent_bytes = 0;   ///< of long documents, besides
  std::uint64_t segment_bytes = 0;  ///< of all segments
  std::uint64_t moved_bytes = 0;    ///< by the cleaner, since the store was opened
  std::uint64_t dram_bytes = 0;
};

}  // namespace perdure::engine

// The pool header: the first page of a file or device, or the root object of a libpmemobj pool.
//
//   byte 0      8         12      16     17   24      32            40     56
//        | magic | version | bytes | kind | 0 | part  | heap start  | uuid | checksum |
//   byte 16: kind of heap, 17: the part's number, 18: how many parts come after the first
//   byte 64     72     104  128                          2176       4096
//        | clean | kept | 0  | root[32] of 64 bytes        | 0 ...    |
//
// H1  `checksum` covers bytes 0 .. 55, and these keep their place in every version (so a newer
//     header can be told from a damaged one); unused bytes are zero.
// H2  `clean` is `clean_word` or 0, nothing else; of a further part `unfinished_word` or 0.
// H3  a root exists <=> its `commit` is not zero; then `checksum` covers name, size and commit.
//     `commit` is written last (P2). Its tag keeps a flipped bit from making a root vanish.
// H4  the parts of a pool have one uuid, size and number of parts, and numbers from 0. But for the
//     first they have neither roots nor a set `clean`.
// H6  `kept` counts only while `clean` is set, in a first part. All zero: nothing was kept. It is
//     written before `clean`, to the same line, so that no cut can part them.
// H5  a further part says `unfinished_word` while the first part's name does not stand for it yet,
//     or will not any more: whoever finds it so, unlocked and without its first part, may remove
//     it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"
#include "pool/options.h"

namespace perdure {

inline constexpr std::array<char, 8> pool_magic{'P', 'E', 'R', 'D', 'U', 'R', 'E', '\x1a'};
/// Version 1 keeps nothing at a clean close (H6).
inline constexpr std::uint32_t pool_layout_version = 2;
inline constexpr std::uint64_t pool_header_bytes = 4096;

[[nodiscard]] Error corrupt_pool(const std::string& path, std::string what);

struct PoolHeader {
  static constexpr std::uint64_t clean_word = 0x6e61656c4330c53aULL;
  static constexpr std::uint64_t unfinished_word = 0x2e68736966a5c35aULL;

  /// What a clean close says of the content, for the next opening to compare (H6).
  struct Kept {
    std::uint64_t blocks;  ///< Heap::Census of what is allocated
    std::uint64_t sum;
    std::uint64_t records;  ///< of all roots, plus 1; 0: not known
    std::uint64_t check;    ///< over these, never 0

    [[nodiscard]] std::uint64_t compute_check() const noexcept;
    [[nodiscard]] bool is_empty() const noexcept { return (blocks | sum | records | check) == 0; }
  };

  struct Root {
    static constexpr std::uint64_t commit_tag = 0x524fULL << 48;
    static constexpr std::uint64_t offset_mask = (std::uint64_t{1} << 48) - 1;

    std::array<char, 32> name;
    std::uint64_t bytes;
    std::uint64_t checksum;
    std::uint64_t unused;
    std::atomic<std::uint64_t> commit;  ///< commit_tag | offset

    [[nodiscard]] std::uint64_t offset() const noexcept {
      return commit.load(std::memory_order_acquire) & offset_mask;
    }
    [[nodiscard]] std::string_view title() const noexcept;
    [[nodiscard]] std::uint64_t checksum_with(std::uint64_t commit_word) const noexcept;
  };

  std::array<char, 8> magic;
  std::uint32_t layout_version;
  std::uint32_t header_bytes;
  std::uint8_t heap_kind;
  std::uint8_t part;
  std::uint8_t more_parts;
  std::array<std::uint8_t, 5> unused;
  std::uint64_t pool_bytes;  ///< of this part
  std::uint64_t heap_offset;
  std::array<std::uint8_t, 16> uuid;
  std::uint64_t checksum;
  std::atomic<std::uint64_t> clean;
  Kept kept;
  std::array<std::uint64_t, 3> unused_line;
  std::array<Root, PoolLimits::max_roots> root;
  std::array<std::uint64_t, 240> unused_end;

  [[nodiscard]] std::uint64_t compute_checksum() const noexcept;
  [[nodiscard]] std::string uuid_text() const;
};
static_assert(sizeof(PoolHeader) == pool_header_bytes);
static_assert(offsetof(PoolHeader, checksum) == 56);
static_assert(offsetof(PoolHeader, clean) == 64);
static_assert(offsetof(PoolHeader, kept) == 72, "in the line of `clean`");
static_assert(offsetof(PoolHeader, root) == 128);
static_assert(sizeof(PoolHeader::Root) == 64);
static_assert(offsetof(PoolHeader::Root, commit) == 56, "the commit word must be failure-atomic");

/// Fills a fresh header, all but the roots, with a random uuid; makes it durable, magic last.
void write_header(PoolHeader& header, HeapKind kind, std::uint64_t pool_bytes,
                  std::uint64_t heap_offset, unsigned parts = 1);
/// The same for a further part of the pool that `first` speaks of; where it is not `finished`,
/// `finish_part_header` follows (H5).
void write_part_header(PoolHeader& header, const PoolHeader& first, unsigned part, bool finished);
void finish_part_header(PoolHeader& header);

/// Checks everything a header claims, in the order foreign, corrupt, newer, truncated.
/// `available_bytes` is what the file really has; only images may be smaller than a pool file.
[[nodiscard]] Result<void> check_header(const PoolHeader& header, std::uint64_t available_bytes,
                                        const std::string& path,
                                        std::uint64_t least_bytes = PoolLimits::min_pool_bytes);

/// Checks that a sound header is that of part 0 of `parts`. Errors: foreign.
[[nodiscard]] Result<void> check_first_part(const PoolHeader& header, unsigned parts,
                                            const std::string& path);
/// Checks that a sound header is that of a further part (H4). Errors: foreign.
[[nodiscard]] Result<void> check_part(const PoolHeader& header, const PoolHeader& first,
                                      unsigned part, const std::string& path);

/// The error for a file that is no pool of ours.
[[nodiscard]] Error foreign_error(const std::string& path);

}  // namespace perdure

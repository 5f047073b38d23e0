// IndexRoot: the block in the pool that says which index this is and where its records begin.
//
//   byte 0        16        20         24         48     56         64
//        | index   | layout  | key kind | option[3]| head | checksum |
//
// O1  written once, before the root is added to the pool, and never changed: `head` must lead to
//     something that stays.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"
#include "index/index.h"
#include "index/media_layout.h"
#include "index/registry.h"
#include "pm/pm.h"
#include "pool/pool.h"

namespace perdure {

struct IndexRoot {
  std::array<char, 16> index;  ///< name in the registry, padded with zero bytes
  std::uint32_t layout_version;
  std::uint32_t key_kind;
  std::array<std::uint64_t, 3> option;  ///< what the layout depends on; meaning is the index's own
  std::uint64_t head;                   ///< pool offset of the first leaf
  std::uint64_t checksum;
};
static_assert(sizeof(IndexRoot) == 64);

/// What its `checksum` must be.
[[nodiscard]] std::uint64_t checksum_of(const IndexRoot& root) noexcept;

[[nodiscard]] inline Error no_room_for(const char* what, const Pool& pool) {
  return {ErrorCode::out_of_space, std::string("no room for ") + what, pool.path(),
          "create a larger pool"};
}

/// What an index expects of its root.
struct IndexRootKind {
  std::string_view index;  ///< at most 15 bytes
  std::uint32_t layout_version = 1;
  KeyKind key_kind = KeyKind::integer;
};

/// Writes the root block and adds it to the pool: durable when it returns. `head` is published
/// already. Errors: exists, out_of_space, usage.
[[nodiscard]] Result<void> create_index_root(Pool& pool, std::string_view root_name,
                                             const IndexRootKind& kind,
                                             std::array<std::uint64_t, 3> option,
                                             std::uint64_t head);

/// The block that an index's root leads to.
struct FirstBlock {
  const char* name;  ///< for the error
  std::size_t bytes;
};

/// Creates an empty index: `first`, which `fill(offset)` writes and flushes, and a root that leads
/// to it. Returns its offset. Errors: exists, out_of_space, usage; nothing is left then.
template <class Fill>
[[nodiscard]] Result<std::uint64_t> create_rooted(const IndexPlace& place,
                                                  const IndexRootKind& kind,
                                                  std::array<std::uint64_t, 3> option,
                                                  FirstBlock first, Fill&& fill) {
  Pool& pool = *place.pool;
  Reservation block = pool.heap().reserve(first.bytes);
  if (!block) return no_room_for(first.name, pool);
  fill(block.offset);
  pm::fence();
  pool.heap().publish({&block, 1});
  Result<void> rooted = create_index_root(pool, place.root_name, kind, option, block.offset);
  if (rooted) return block.offset;
  pool.heap().free(block.offset, first.bytes);
  return rooted.error();
}

/// The root block, for counterexamples.
[[nodiscard]] MediaStruct media_of_root();

/// Finds and checks the root block. Errors: not_found, foreign (another index or kind of key, or an
/// older layout), newer, corrupt.
[[nodiscard]] Result<IndexRoot> read_index_root(const Pool& pool, std::string_view root_name,
                                                const IndexRootKind& kind);

/// Foreign, with the option to give as the remedy, unless `asked` is what the pool was made with.
[[nodiscard]] Result<void> check_index_option(const Pool& pool, std::string_view option,
                                              std::uint64_t stored, std::uint64_t asked);

}  // namespace perdure

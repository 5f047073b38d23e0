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
#include <string_view>

#include "core/result.h"
#include "index/index.h"
#include "index/media_layout.h"
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

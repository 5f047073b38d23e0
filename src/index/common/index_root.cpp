#include "index/common/index_root.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "core/assert.h"
#include "core/rng.h"
#include "pm/pm.h"

namespace perdure {
namespace {

std::string_view name_in(const IndexRoot& root) noexcept {
  const auto end = std::find(root.index.begin(), root.index.end(), '\0');
  return {root.index.data(), static_cast<std::size_t>(end - root.index.begin())};
}

}  // namespace

std::uint64_t checksum_of(const IndexRoot& root) noexcept {
  std::array<std::uint64_t, offsetof(IndexRoot, checksum) / 8> words{};
  std::memcpy(words.data(), &root, sizeof words);
  std::uint64_t sum = 0x7065726475726521ULL;
  for (const std::uint64_t word : words) sum = mix64(sum ^ word) + 0x9e3779b97f4a7c15ULL;
  return sum;
}

Result<void> create_index_root(Pool& pool, std::string_view root_name, const IndexRootKind& kind,
                               std::array<std::uint64_t, 3> option, std::uint64_t head) {
  IndexRoot root{};
  PERDURE_ASSERT(kind.index.size() < root.index.size());
  std::copy(kind.index.begin(), kind.index.end(), root.index.begin());
  root.layout_version = kind.layout_version;
  root.key_kind = static_cast<std::uint32_t>(kind.key_kind);
  root.option = option;
  root.head = head;
  root.checksum = checksum_of(root);
  Reservation block = pool.heap().reserve(sizeof root);
  if (!block) return no_room_for("the root of an index", pool);
  std::memcpy(pool.base() + block.offset, &root, sizeof root);
  pm::persist(pool.base() + block.offset, sizeof root);
  Result<void> added = pool.add_root(root_name, block);
  if (!added) pool.heap().cancel(block);
  return added;
}

Result<IndexRoot> read_index_root(const Pool& pool, std::string_view root_name,
                                  const IndexRootKind& kind) {
  const std::vector<PoolRoot> roots = pool.roots();
  const auto found = std::ranges::find(roots, root_name, &PoolRoot::name);
  const std::string name(root_name);
  if (found == roots.end()) {
    std::string others;
    for (const PoolRoot& root : roots) others += (others.empty() ? "'" : ", '") + root.name + "'";
    return Error{ErrorCode::not_found, "the pool has no root '" + name + "'", pool.path(),
                 others.empty() ? "it has none: create the index first" : "it has " + others};
  }
  const Error corrupt{
      ErrorCode::corrupt, "root '" + name + "' is damaged", pool.path(),
      "restore the pool from a copy, or create a new one with PoolOptions::overwrite"};
  IndexRoot root{};
  if (found->bytes < sizeof root || !pool.contains(found->offset, sizeof root)) return corrupt;
  std::memcpy(&root, pool.base() + found->offset, sizeof root);
  if (root.checksum != checksum_of(root)) return corrupt;
  const std::string held(name_in(root));
  if (held != kind.index)
    return Error{ErrorCode::foreign, "root '" + name + "' holds an index '" + held + "'",
                 pool.path(), "open it with IndexRegistry::find " + held};
  if (root.layout_version > kind.layout_version)
    return Error{ErrorCode::newer,
                 "root '" + name + "' has layout " + std::to_string(root.layout_version) +
                     ", this build knows up to " + std::to_string(kind.layout_version),
                 pool.path(), "use the version that wrote it"};
  if (root.layout_version < kind.layout_version)
    return Error{ErrorCode::foreign,
                 "root '" + name + "' has layout " + std::to_string(root.layout_version) +
                     ", this build reads layout " + std::to_string(kind.layout_version) + " only",
                 pool.path(), "use the version that wrote it"};
  const std::string held_kind = name_of(static_cast<KeyKind>(root.key_kind));
  if (root.key_kind != static_cast<std::uint32_t>(kind.key_kind))
    return Error{ErrorCode::foreign, "root '" + name + "' holds keys of kind " + held_kind,
                 pool.path(), "open it with KeyKind::" + held_kind};
  return root;
}

Result<void> check_index_option(const Pool& pool, std::string_view option, std::uint64_t stored,
                                std::uint64_t asked) {
  if (stored == asked) return {};
  const std::string name(option);
  return Error{ErrorCode::foreign,
               "the pool was made with " + name + "=" + std::to_string(stored) + ", not " +
                   std::to_string(asked),
               pool.path(), "give IndexPlace::options " + name + "=" + std::to_string(stored)};
}

MediaStruct media_of_root() {
  return {"root",
          sizeof(IndexRoot),
          {{"index", offsetof(IndexRoot, index), 8, 2},
           {"layout_version", offsetof(IndexRoot, layout_version), 4},
           {"key_kind", offsetof(IndexRoot, key_kind), 4},
           {"option", offsetof(IndexRoot, option), 8, 3},
           {"head", offsetof(IndexRoot, head), 8},
           {"checksum", offsetof(IndexRoot, checksum), 8}}};
}

}  // namespace perdure

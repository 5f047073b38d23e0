#include "index/common/index_root.h"
#include "index/fptree/fptree.h"

namespace perdure::fptree {
namespace {

std::vector<MediaStruct> media(const IndexOptions& options) {
  const auto entries = static_cast<std::uint32_t>(options.get("leaf_entries"));
  constexpr auto record = static_cast<std::uint32_t>(sizeof(LeafRecord));
  constexpr auto records = static_cast<std::uint32_t>(sizeof(Leaf));
  return {media_of_root(),
          {"leaf",
           leaf_bytes(entries),
           {{"tag", offsetof(Leaf, tag), 1, entries},
            {"commit", offsetof(Leaf, commit), 8},
            {"next", offsetof(Leaf, next), 8},
            {"lock", offsetof(Leaf, lock), 8},
            {"record[].key", records + offsetof(LeafRecord, key), 8, entries, record},
            {"record[].value", records + offsetof(LeafRecord, value), 8, entries, record}}}};
}

PERDURE_REGISTER_INDEX(
    fptree,
    IndexInfo{.name = "fptree",
              .title = "FPTree (Oukid et al., SIGMOD 2016)",
              .index_class = IndexClass::persistent,
              .options = {{.name = "leaf_entries",
                           .description = "records a leaf holds; part of the layout",
                           .fallback = max_entries,
                           .least = min_entries,
                           .most = max_entries},
                          {.name = "inner_entries",
                           .description = "separators an inner node holds; free at every start",
                           .fallback = 128,
                           .least = 3,
                           .most = 1024},
                          {.name = "update_in_place",
                           .description = "1: an update stores the 8-byte value word where it is; "
                                          "0: as published, a new slot and one commit word",
                           .fallback = 0,
                           .least = 0,
                           .most = 1}},
              .create_integer = FpTree<IntegerKeys>::create,
              .create_bytes = FpTree<ByteKeys>::create,
              .recover_integer = FpTree<IntegerKeys>::recover,
              .recover_bytes = FpTree<ByteKeys>::recover,
              .media = media});

}  // namespace
}  // namespace perdure::fptree

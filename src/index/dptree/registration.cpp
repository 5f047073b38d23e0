// What the registry knows of DPTree: its options, and its layout on media.
#include <string>

#include "index/dptree/dptree.h"

namespace perdure {

using dptree::Anchor;

static std::vector<MediaStruct> dptree_media(const IndexOptions& options) {
  using dptree::LeafSet;
  using dptree::LogRecord;
  using dptree::LogSegment;
  constexpr std::uint32_t bitmap = offsetof(LeafSet, bitmap);
  constexpr std::uint32_t bytes = sizeof(LeafSet);
  const auto entries = static_cast<std::uint32_t>(options.get("leaf_entries"));
  const auto tags = static_cast<std::uint32_t>(dptree::LeafView::rounded(entries));
  const auto records = static_cast<std::uint32_t>(2 * bytes + 3 * tags);
  const auto logged = static_cast<std::uint32_t>(options.get("log_entries"));
  const std::vector<MediaField> sets{{"set[].stamp", offsetof(LeafSet, stamp), 8, 2, bytes},
                                     {"set[].next", offsetof(LeafSet, next), 8, 2, bytes},
                                     {"set[].count", offsetof(LeafSet, count), 8, 2, bytes},
                                     {"set[].complete", offsetof(LeafSet, complete), 8, 2, bytes},
                                     {"set[0].bitmap", bitmap, 8, 4},
                                     {"set[1].bitmap", bytes + bitmap, 8, 4}};
  const auto with_sets = [&](std::vector<MediaField> rest) {
    rest.insert(rest.begin(), sets.begin(), sets.end());
    return rest;
  };
  return {
      media_of_root(),
      {"anchor", sizeof(Anchor),
       with_sets({{"state", offsetof(Anchor, state), 8}, {"log", offsetof(Anchor, log), 8, 2}})},
      {"leaf", dptree::LeafView::bytes(entries),
       with_sets({{"fingerprint", 2 * bytes, 1, entries},
                  {"order[0]", 2 * bytes + tags, 1, entries},
                  {"order[1]", 2 * bytes + 2 * tags, 1, entries},
                  {"record[].key", records, 8, entries, sizeof(LeafRecord)},
                  {"record[].value", records + 8, 8, entries, sizeof(LeafRecord)}})},
      {"log",
       LogSegment::bytes(logged),
       {{"next", offsetof(LogSegment, next), 8},
        {"record[].key", sizeof(LogSegment), 8, logged, sizeof(LogRecord)},
        {"record[].value", sizeof(LogSegment) + offsetof(LogRecord, value), 8, logged,
         sizeof(LogRecord)},
        {"record[].check", sizeof(LogSegment) + offsetof(LogRecord, check), 8, logged,
         sizeof(LogRecord)},
        {"record[].other", sizeof(LogSegment) + offsetof(LogRecord, other), 8, logged,
         sizeof(LogRecord)}}}};
}

PERDURE_REGISTER_INDEX(
    dptree,
    IndexInfo{.name = "dptree",
              .title = "DPTree (Zhou et al., PVLDB 13(4) 2019)",
              .index_class = IndexClass::persistent,
              .options = {{.name = "leaf_entries",
                           .description = "records a base leaf holds",
                           .fallback = dptree::BaseLeaf::most_entries,
                           .least = 4,
                           .most = dptree::BaseLeaf::most_entries},
                          {.name = "log_entries",
                           .description = "records a segment of the log holds; 127 make it 4 KiB",
                           .fallback = 127,
                           .least = 3,
                           .most = 4095},
                          {.name = "buffer_entries",
                           .description = "records a buffer tree takes before it is merged, at"
                                          " least",
                           .fallback = 16384,
                           .least = 4,
                           .most = std::uint64_t{1} << 30},
                          {.name = "merge_percent",
                           .description = "records a buffer tree takes before it is merged, in"
                                          " percent of the base tree's",
                           .fallback = 7,
                           .least = 1,
                           .most = 100},
                          {.name = "workers",
                           .description = "background threads that merge; 0: the threads that"
                                          " write do, as always in the crash explorer",
                           .fallback = 1,
                           .least = 0,
                           .most = 8,
                           .counts_threads = true}},
              .create_integer = DpTree<IntegerKeys>::create,
              .create_bytes = DpTree<ByteKeys>::create,
              .recover_integer = DpTree<IntegerKeys>::recover,
              .recover_bytes = DpTree<ByteKeys>::recover,
              .media = dptree_media});

}  // namespace perdure

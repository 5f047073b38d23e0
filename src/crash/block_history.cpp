#include "crash/block_history.h"

#include <algorithm>

namespace perdure::crash {

void BlockHistory::note(const Instance& instance, Operation operation) {
  std::map<std::uint64_t, Operation> now;
  for (const Heap::Extent& block : instance.live_extents()) {
    const auto known = live_.find(block.offset);
    now.emplace(block.offset, known == live_.end() ? operation : known->second);
  }
  live_ = std::move(now);
}

BlockHistory::Operation BlockHistory::of(std::uint64_t offset) const {
  const auto known = live_.find(offset);
  return known == live_.end() ? std::nullopt : known->second;
}

std::vector<FaultyBlock> differing_blocks(std::span<const Heap::Extent> live,
                                          std::span<const Heap::Extent> reached) {
  std::vector<FaultyBlock> blocks;
  const auto add_missing = [&](std::span<const Heap::Extent> from, std::span<const Heap::Extent> in,
                               bool leaks) {
    for (const Heap::Extent& block : from)
      if (!std::ranges::binary_search(in, block.offset, {}, &Heap::Extent::offset))
        blocks.push_back({.block = block, .leaks = leaks, .reserved_by = {}});
  };
  add_missing(live, reached, true);
  add_missing(reached, live, false);
  return blocks;
}

namespace {

std::string show_block(const Subject& subject, const Heap::Extent& block) {
  std::string text =
      std::to_string(block.bytes) + " bytes at pool offset " + std::to_string(block.offset);
  const std::vector<MediaStruct> structures = subject.media();
  if (structures.empty()) return text;
  const Blocks blocks{{static_cast<LineNumber>(block.offset / line_bytes), block}};
  const std::string name = Layout(structures, blocks).name_of(block.offset);
  return name.empty() ? text : text + " (" + name.substr(0, name.find('@')) + ")";
}

}  // namespace

std::string tell_difference(const Subject& subject, std::uint64_t live, std::uint64_t reached,
                            std::span<const FaultyBlock> blocks,
                            const NameOperation& name_operation) {
  const BlockFault fault = fault_of(live, reached);
  if (fault == BlockFault::none) return {};
  const bool leaks = fault == BlockFault::leak;
  std::string text = std::string(leaks ? "leak" : "double free") + ": the heap holds " +
                     std::to_string(live) + " blocks, recovery reaches " + std::to_string(reached);
  constexpr unsigned most = 3;
  unsigned named = 0;
  for (const FaultyBlock& faulty : blocks) {
    if (faulty.leaks != leaks) continue;
    if (named++ == most) return text + ", and others";
    text += (named == 1 ? ": " : ", ") + show_block(subject, faulty.block);
    if (faulty.reserved_by) text += ", which " + name_operation(*faulty.reserved_by) + " reserved";
  }
  return text;
}

}  // namespace perdure::crash

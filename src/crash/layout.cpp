#include "crash/layout.h"

#include <algorithm>

namespace perdure::crash {
namespace {

std::string numbered(const MediaField& field, std::uint64_t number) {
  const std::size_t at = field.name.find("[]");
  if (at != std::string::npos)
    return field.name.substr(0, at + 1) + std::to_string(number) + field.name.substr(at + 1);
  return field.count > 1 ? field.name + "[" + std::to_string(number) + "]" : field.name;
}

std::uint64_t stride_of(const MediaField& field) {
  return field.stride != 0 ? field.stride : std::max<std::uint64_t>(1, field.bytes);
}

std::string block_name(const MediaStruct& structure, const Heap::Extent& block) {
  return structure.name + "@" + std::to_string(block.offset);
}

}  // namespace

Layout::Layout(std::vector<MediaStruct> structures, const Blocks& blocks)
    : structures_(std::move(structures)), blocks_(blocks) {}

const MediaStruct* Layout::structure_at(std::uint64_t offset, Heap::Extent& block) const {
  const auto at = blocks_.find(static_cast<LineNumber>(offset / line_bytes));
  if (at == blocks_.end() || at->second.bytes == 0) return nullptr;
  // Small blocks share a line: the line's entry is that of its first byte, the others follow it.
  block = at->second;
  block.offset += (offset - block.offset) / block.bytes * block.bytes;
  const auto found = std::ranges::find_if(structures_, [&](const MediaStruct& each) {
    return Heap::block_bytes(each.bytes) == block.bytes;
  });
  return found == structures_.end() ? nullptr : &*found;
}

std::string Layout::name_of(std::uint64_t offset) const {
  Heap::Extent block;
  const MediaStruct* const structure = structure_at(offset, block);
  if (structure == nullptr) return {};
  const std::uint64_t inside = offset - block.offset;
  const std::string name = block_name(*structure, block);
  for (const MediaField& field : structure->fields) {
    if (inside < field.offset) continue;
    const std::uint64_t number = (inside - field.offset) / stride_of(field);
    const std::uint64_t begin = field.offset + number * stride_of(field);
    if (number >= field.count || inside >= begin + field.bytes) continue;
    const std::string whole = name + "." + numbered(field, number);
    return inside == begin ? whole : whole + "+" + std::to_string(inside - begin);
  }
  return name + "+" + std::to_string(inside);
}

std::vector<Layout::Field> Layout::fields_of(LineNumber line) const {
  std::vector<Field> fields;
  const std::uint64_t begin = std::uint64_t{line} * line_bytes;
  for (std::uint64_t at = begin; at < begin + line_bytes;) {
    Heap::Extent block;
    const MediaStruct* const structure = structure_at(at, block);
    const std::uint64_t end = structure == nullptr ? at + 1 : block.offset + block.bytes;
    for (std::size_t i = 0; structure != nullptr && i < structure->fields.size(); ++i) {
      const MediaField& field = structure->fields[i];
      for (std::uint64_t number = 0; number < field.count; ++number) {
        const std::uint64_t offset = block.offset + field.offset + number * stride_of(field);
        if (offset < begin || offset >= begin + line_bytes) continue;
        fields.push_back(
            {block_name(*structure, block) + "." + numbered(field, number), offset, field.bytes});
      }
    }
    at = std::max(at + 1, end);
  }
  std::ranges::sort(fields, {}, &Field::offset);
  return fields;
}

}  // namespace perdure::crash

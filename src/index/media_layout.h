// Media layout: how an index describes its persistent structures to whoever shows images of them.
//
// A description is data and optional: the crash explorer names fields in a counterexample where it
// finds one, and bytes where not. Structures are told apart by the size class of their block.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace perdure {

/// One field, or an array of them.
struct MediaField {
  std::string name;          ///< "commit"; of an array "record[].key": the number goes between []
  std::uint32_t offset;      ///< of the (first) field in its structure
  std::uint32_t bytes;       ///< of one field
  std::uint32_t count = 1;   ///< how many there are
  std::uint32_t stride = 0;  ///< bytes from one to the next; 0: side by side
};

/// A structure that fills one block of the heap.
struct MediaStruct {
  std::string name;     ///< "leaf"
  std::uint64_t bytes;  ///< as reserved from the heap
  std::vector<MediaField> fields;
};

}  // namespace perdure

// Layout: names for places in a pool image, from the index's description of its structures and the
// heap's blocks.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "crash/line.h"
#include "index/media_layout.h"
#include "pool/heap.h"

namespace perdure::crash {

/// The blocks that the first bytes of a run's lines belonged to.
using Blocks = std::map<LineNumber, Heap::Extent>;

class Layout {
 public:
  Layout(std::vector<MediaStruct> structures, const Blocks& blocks);

  /// "leaf@66048.record[2].key" for the bytes at a pool offset; "leaf@66048+24" where no field is
  /// known; empty where no structure is.
  [[nodiscard]] std::string name_of(std::uint64_t offset) const;

  struct Field {
    std::string name;      ///< as above
    std::uint64_t offset;  ///< in the pool
    std::uint32_t bytes;
  };
  /// The known fields that begin in the line, ascending.
  [[nodiscard]] std::vector<Field> fields_of(LineNumber line) const;

 private:
  [[nodiscard]] const MediaStruct* structure_at(std::uint64_t offset, Heap::Extent& block) const;

  std::vector<MediaStruct> structures_;
  const Blocks& blocks_;
};

}  // namespace perdure::crash

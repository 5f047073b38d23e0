// Toy: what all toys share: an index of integer keys without order, one lock, one root block.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "crash/toys/toys.h"
#include "pm/pm.h"

namespace perdure::crash {

using Word = std::atomic<std::uint64_t>;
inline constexpr auto relaxed = std::memory_order_relaxed;

[[nodiscard]] constexpr std::uint64_t bit(std::uint64_t slot) { return std::uint64_t{1} << slot; }

class Toy : public IntegerIndex {
 public:
  Toy(Defect defect, bool repaired) : defect_(defect), repaired_(repaired) {}

  std::size_t scan(std::uint64_t, std::size_t, IntegerScan& out) final {
    out.clear();
    return 0;
  }
  Result<void> bulk_load(std::span<const IntegerRecord>) final {
    return Error{ErrorCode::unsupported, "a toy has no bulk load", "", ""};
  }
  [[nodiscard]] std::uint64_t dram_bytes() const final { return sizeof *this; }

 protected:
  [[nodiscard]] bool has(Defect defect) const noexcept { return defect_ == defect && !repaired_; }
  /// This toy's subject, planted or repaired.
  [[nodiscard]] bool is(Defect defect) const noexcept { return defect_ == defect; }
  [[nodiscard]] static Error damaged(const char* what) {
    return {ErrorCode::corrupt, what, "toy", ""};
  }

 private:
  Defect defect_;
  bool repaired_;
};

[[nodiscard]] std::vector<MediaStruct> table_media(const IndexOptions&);
[[nodiscard]] std::vector<MediaStruct> list_media(const IndexOptions&);
[[nodiscard]] std::vector<MediaStruct> chain_media(const IndexOptions&);
[[nodiscard]] std::vector<MediaStruct> hash_media(const IndexOptions&);
[[nodiscard]] std::vector<MediaStruct> tree_media(const IndexOptions&);

/// The offset of the pool's root, or null.
[[nodiscard]] std::uint64_t toy_root(const IndexPlace& place);

/// The toy that the pool holds, recovered. `make(offset of its root)` makes it.
template <class Make>
[[nodiscard]] Result<std::unique_ptr<IntegerIndex>> recovered(const IndexPlace& place,
                                                              Make&& make) {
  const std::uint64_t at = toy_root(place);
  if (at == null_offset) return Error{ErrorCode::not_found, "no toy", "", ""};
  auto toy = make(at);
  if (auto done = toy->recover(); !done) return done.error();
  if (auto done = place.pool->root_recovered(place.root_name); !done) return done.error();
  return std::unique_ptr<IntegerIndex>(std::move(toy));
}

[[nodiscard]] Result<std::unique_ptr<IntegerIndex>> open_table(const IndexPlace& place,
                                                               Defect defect, bool repaired,
                                                               bool create);
[[nodiscard]] Result<std::unique_ptr<IntegerIndex>> open_list(const IndexPlace& place,
                                                              Defect defect, bool repaired,
                                                              bool create);
[[nodiscard]] Result<std::unique_ptr<IntegerIndex>> open_chain(const IndexPlace& place,
                                                               Defect defect, bool repaired,
                                                               bool create);
[[nodiscard]] Result<std::unique_ptr<IntegerIndex>> open_hash(const IndexPlace& place,
                                                              Defect defect, bool repaired,
                                                              bool create);
[[nodiscard]] Result<std::unique_ptr<IntegerIndex>> open_tree(const IndexPlace& place,
                                                              Defect defect, bool repaired,
                                                              bool create);

}  // namespace perdure::crash

// Registration of `hashset:soft`: a hash table of SOFT lists. See design.md.
#include <bit>

#include "core/rng.h"
#include "lockfree/list/soft_list.h"

namespace perdure::lockfree {
namespace {

/// A list for each bucket. They are in DRAM, so their number may be another at each opening.
class Buckets {
 public:
  void prepare(const IndexOptions& options) {
    count_ = std::bit_ceil(options.get("buckets"));
    head_ = std::make_unique<Link[]>(count_);
  }
  [[nodiscard]] Link& of(std::uint64_t key) noexcept { return head_[mix64(key) & (count_ - 1)]; }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] Link& operator[](std::uint64_t bucket) noexcept { return head_[bucket]; }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept { return count_ * sizeof(Link); }

 private:
  std::uint64_t count_ = 0;
  std::unique_ptr<Link[]> head_;
};

struct HashSetTraits {
  using Heads = Buckets;
  static constexpr ListKind kind{
      .structure = "hashset", .mode = "soft", .number = 1, .ordered = false};
};

std::vector<IndexOption> hashset_options() {
  std::vector<IndexOption> options = list_options(NodeSlab::most_nodes);
  options.push_back(
      {.name = "buckets",
       .description = "lists in DRAM, rounded up to a power of two; best as many as records",
       .fallback = std::uint64_t{1} << 20,
       .least = 1,
       .most = std::uint64_t{1} << 28});
  return options;
}

}  // namespace

PERDURE_REGISTER_INDEX(hashset_soft,
                       IndexInfo{
                           .name = "hashset",
                           .mode = "soft",
                           .title = "hash set of SOFT lists (Zuriel et al., OOPSLA 2019)",
                           .ordered = false,
                           .replaces = false,
                           .progress = Progress::lock_free,
                           .options = hashset_options(),
                           .create_integer = SoftList<HashSetTraits>::create,
                           .recover_integer = SoftList<HashSetTraits>::recover,
                           .media = media_of_soft,
                           .heaps = {HeapKind::slab, HeapKind::dram},
                       });

}  // namespace perdure::lockfree

// `arctic`: ARCTIC (Ni et al., OSDI 2026), the authors' Rust crate, as an index of index_ratios. It
// keeps nothing, and allocates as the C library does: on 4 KiB pages, unless
// GLIBC_TUNABLES=glibc.malloc.hugetlb=1 is set.
#include <memory>

#include "arctic.h"
#include "index/common/bulk_check.h"
#include "index/registry.h"

namespace perdure {
namespace {

class Arctic final : public OrderedIndex<IntegerKeys> {
 public:
  Arctic() : map_(arctic_create()) {}
  ~Arctic() override { arctic_destroy(map_); }

  Outcome insert(Key key, Value value) override {
    return arctic_insert(map_, key, value) ? Outcome::ok : Outcome::exists;
  }
  Outcome upsert(Key key, Value value) override {
    arctic_upsert(map_, key, value);
    return Outcome::ok;
  }
  Outcome update(Key key, Value value) override { return found(arctic_update(map_, key, value)); }
  Outcome remove(Key key) override { return found(arctic_remove(map_, key)); }
  Outcome lookup(Key key, ValueOut& value) override {
    return found(arctic_lookup(map_, key, &value));
  }
  std::size_t scan(Key from, std::size_t count, Scan& out) override {
    static_assert(sizeof(IntegerRecord) == 2 * sizeof(std::uint64_t));
    out.clear();
    auto* const records = reinterpret_cast<std::uint64_t*>(out.extend(count).data());
    out.truncate(arctic_scan(map_, from, count, records));
    return out.size();
  }
  Result<void> bulk_load(std::span<const Record> records) override {
    if (auto refusal = bulk_load_refusal(size() == 0, records)) return std::move(*refusal);
    for (const Record& record : records) arctic_insert(map_, record.key, record.value);
    return {};
  }

  [[nodiscard]] std::uint64_t size() const override {
    constexpr std::size_t step = 1024;
    std::uint64_t records[2 * step];
    std::uint64_t total = 0;
    for (std::uint64_t from = 0;;) {
      const std::size_t taken = arctic_scan(map_, from, step, records);
      total += taken;
      if (taken < step || records[2 * taken - 2] == ~std::uint64_t{0}) return total;
      from = records[2 * taken - 2] + 1;
    }
  }
  [[nodiscard]] Result<void> check_invariants() const override { return {}; }
  [[nodiscard]] std::uint64_t dram_bytes() const override { return arctic_bytes(); }

 private:
  [[nodiscard]] static Outcome found(bool there) {
    return there ? Outcome::ok : Outcome::not_found;
  }

  ArcticMap* map_;
};

PERDURE_REGISTER_INDEX(arctic,
                       IndexInfo{.name = "arctic",
                                 .title = "ARCTIC (the authors' crate)",
                                 .index_class = IndexClass::in_memory,
                                 .create_integer = [](const IndexPlace&) -> MadeIndex<IntegerKeys> {
                                   return std::unique_ptr<OrderedIndex<IntegerKeys>>(new Arctic);
                                 }});

}  // namespace
}  // namespace perdure

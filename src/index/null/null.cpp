// `null`: an index that does nothing, so that a run of it measures the harness. See design.md.
#include "index/registry.h"

namespace perdure {
namespace {

template <class Keys>
class NullIndex final : public OrderedIndex<Keys> {
  using Base = OrderedIndex<Keys>;

 public:
  using Key = typename Base::Key;
  using Value = typename Base::Value;
  using ValueOut = typename Base::ValueOut;
  using Record = typename Base::Record;
  using Scan = typename Base::Scan;

  Outcome insert(Key, Value) override { return Outcome::ok; }
  Outcome upsert(Key, Value) override { return Outcome::ok; }
  Outcome update(Key, Value) override { return Outcome::ok; }
  Outcome remove(Key) override { return Outcome::ok; }
  Outcome lookup(Key key, ValueOut& value) override {
    value = key;
    return Outcome::ok;
  }
  std::size_t scan(Key, std::size_t, Scan& out) override {
    out.clear();
    return 0;
  }
  Result<void> bulk_load(std::span<const Record>) override { return {}; }

  std::uint64_t size() const override { return 0; }
  Result<void> check_invariants() const override { return {}; }
  std::uint64_t dram_bytes() const override { return 0; }
};

template <class Keys>
MadeIndex<Keys> create(const IndexPlace&) {
  return std::unique_ptr<OrderedIndex<Keys>>(std::make_unique<NullIndex<Keys>>());
}

PERDURE_REGISTER_INDEX(null, IndexInfo{
                                 .name = "null",
                                 .title = "does nothing: measures the harness",
                                 .index_class = IndexClass::harness,
                                 .verifiable = false,
                                 .create_integer = create<IntegerKeys>,
                                 .create_bytes = create<ByteKeys>,
                             });

}  // namespace
}  // namespace perdure

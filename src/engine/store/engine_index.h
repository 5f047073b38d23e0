// EngineIndex: a document store seen as an index of byte strings, so that whatever measures,
// explores or tests indexes takes the engine, too. A value is a document; with the option
// `secondary` each has an entry in the index for its first eight bytes, as a document has for a
// field.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/store/document_store.h"
#include "index/writable_index.h"

namespace perdure::engine {

class EngineIndex final : public WritableIndex<EngineIndex, ByteKeys> {
 public:
  [[nodiscard]] static MadeIndex<ByteKeys> create(const IndexPlace& place);
  [[nodiscard]] static MadeIndex<ByteKeys> recover(const IndexPlace& place);

  Outcome put(std::string_view key, std::string_view value, Put kind);
  Outcome remove(std::string_view key) override;
  Outcome lookup(std::string_view key, std::string& value) override;
  std::size_t scan(std::string_view from, std::size_t count, BytesScan& out) override;
  Result<void> bulk_load(std::span<const BytesRecord> records) override;

  [[nodiscard]] std::uint64_t size() const override { return store_->size(); }
  [[nodiscard]] Result<void> check_invariants() const override {
    return store_->check_invariants();
  }
  [[nodiscard]] std::uint64_t dram_bytes() const override { return store_->usage().dram_bytes; }
  void quiesce() override { store_->settle(); }

 private:
  class FirstBytes;
  explicit EngineIndex(const IndexPlace& place);
  [[nodiscard]] static StoreOptions store_options(const IndexPlace& place);
  /// With a secondary index keys get a first byte that no entry has.
  [[nodiscard]] std::string_view key_in_store(std::string_view key, std::string& room) const;
  [[nodiscard]] static MadeIndex<ByteKeys> with_store(std::unique_ptr<EngineIndex> index,
                                                      Result<std::unique_ptr<DocumentStore>> store);

  std::unique_ptr<EntryRule> rule_;
  const bool has_secondary_;
  Pool& pool_;
  std::unique_ptr<DocumentStore> store_;
};

}  // namespace perdure::engine

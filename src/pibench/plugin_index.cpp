#include "pibench/plugin_index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "index/common/bulk_check.h"
#include "pibench/plugin_library.h"

namespace perdure {
namespace {

using Answer = PluginLibrary::Answer;

Outcome outcome_of(Answer answer, Outcome if_no) noexcept {
  if (answer == Answer::broken) return Outcome::invalid;
  return answer == Answer::yes ? Outcome::ok : if_no;
}

/// Eight native-endian bytes, or the string itself.
class Raw {
 public:
  explicit Raw(std::uint64_t word) noexcept { std::memcpy(word_.data(), &word, sizeof word); }
  explicit Raw(std::string_view text) noexcept : text_(text), is_word_(false) {}
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;
  [[nodiscard]] std::string_view view() const noexcept {
    return is_word_ ? std::string_view(word_.data(), word_.size()) : text_;
  }

 private:
  std::array<char, 8> word_{};
  std::string_view text_;
  bool is_word_ = true;
};

void read(std::string_view raw, std::uint64_t& word) {
  std::memcpy(&word, raw.data(), sizeof word);
}
void read(std::string_view raw, std::string& text) { text = raw; }
void read(std::string_view raw, std::string_view& text) { text = raw; }

// A scan may start from any string: of the wanted length, the least that is not below it in its
// first bytes. `read_scan` drops what is below all the same.
std::uint64_t scan_start(std::uint64_t from, std::size_t, std::string&) { return from; }
std::string_view scan_start(std::string_view from, std::size_t key_bytes, std::string& room) {
  room = from.substr(0, key_bytes);
  room.resize(key_bytes, '\0');
  return room;
}

template <class Keys>
class PluginIndex final : public OrderedIndex<Keys> {
  using Base = OrderedIndex<Keys>;
  static constexpr bool is_bytes = Keys::kind == KeyKind::bytes;

 public:
  using Key = typename Base::Key;
  using Value = typename Base::Value;
  using ValueOut = typename Base::ValueOut;
  using Record = typename Base::Record;
  using Scan = typename Base::Scan;

  explicit PluginIndex(std::unique_ptr<PluginLibrary> library) : library_(std::move(library)) {}

  Outcome insert(Key key, Value value) override {
    if (!fits(key) || !fits_value(value)) return Outcome::invalid;
    return outcome_of(library_->insert(Raw(key).view(), Raw(value).view()), Outcome::exists);
  }

  Outcome update(Key key, Value value) override {
    if (!fits(key) || !fits_value(value)) return Outcome::invalid;
    return outcome_of(library_->update(Raw(key).view(), Raw(value).view()), Outcome::not_found);
  }

  // Another thread may insert or remove the key between the two calls; a wrapper that says no to
  // both for ever is broken.
  Outcome upsert(Key key, Value value) override {
    for (unsigned attempt = 0; attempt < upsert_attempts; ++attempt) {
      const Outcome updated = update(key, value);
      if (updated != Outcome::not_found) return updated;
      const Outcome inserted = insert(key, value);
      if (inserted != Outcome::exists) return inserted;
    }
    return Outcome::invalid;
  }

  Outcome remove(Key key) override {
    if (!fits(key)) return Outcome::not_found;
    return outcome_of(library_->remove(Raw(key).view()), Outcome::not_found);
  }

  Outcome lookup(Key key, ValueOut& value) override {
    if (!fits(key)) return Outcome::not_found;
    std::string_view found;
    const Answer answer = library_->find(Raw(key).view(), found);
    if (answer == Answer::yes) read(found, value);
    return outcome_of(answer, Outcome::not_found);
  }

  std::size_t scan(Key from, std::size_t count, Scan& out) override {
    out.clear();
    if (count == 0) return 0;
    std::string room;
    const Key start = scan_start(from, library_->options().key_bytes, room);
    const bool one_more = start < from;  // a longer `from` was cut: its first bytes may be a key
    std::size_t claimed = 0;
    const std::string_view records =
        library_->scan(Raw(start).view(), count + static_cast<std::size_t>(one_more), claimed);
    read_scan(records, start, from, out);
    out.truncate(std::min(out.size(), count));
    return records.data() == nullptr ? std::min(claimed, count) : out.size();
  }

  // Wrappers have no load of their own in this interface.
  Result<void> bulk_load(std::span<const Record> records) override {
    if (auto refusal = bulk_load_refusal(size() == 0, records)) return std::move(*refusal);
    for (const Record& record : records)
      if (const Outcome outcome = insert(record.key, record.value); outcome != Outcome::ok)
        return Error{ErrorCode::failed, std::string("an insert came to ") + name_of(outcome),
                     library_->options().library, "load fewer records, or give it more room"};
    return {};
  }

  std::uint64_t size() const override { return library_->claimed_records(); }
  std::uint64_t dram_bytes() const override { return 0; }  // the wrapper's is not known
  bool requires_openmp_workers() const noexcept override { return true; }

  Result<void> check_invariants() const override {
    const PluginViolations seen = library_->violations();
    if (seen.overruns + seen.exceptions + seen.impossible_scans == 0) return {};
    return Error{ErrorCode::corrupt,
                 "the wrapper wrote outside its buffer " + std::to_string(seen.overruns) +
                     " times (U1), threw " + std::to_string(seen.exceptions) +
                     " times (U2) and returned " + std::to_string(seen.impossible_scans) +
                     " impossible scans (U3)",
                 library_->options().library, "do not believe what it measures"};
  }

  [[nodiscard]] PluginViolations violations() const noexcept { return library_->violations(); }

 private:
  static constexpr unsigned upsert_attempts = 64;

  [[nodiscard]] bool fits(Key key) const noexcept {
    if constexpr (is_bytes) return key.size() == library_->options().key_bytes;
    return true;
  }
  [[nodiscard]] bool fits_value(Value value) const noexcept {
    if constexpr (is_bytes) return value.size() == library_->options().value_bytes;
    return true;
  }

  // U3. Disorder is counted and passed on: verification says which record is wrong.
  void read_scan(std::string_view records, Key start, Key from, Scan& out) {
    const std::size_t key_bytes = library_->options().key_bytes;
    const std::size_t step = library_->record_bytes();
    Key before = start;
    bool ascending = true;
    for (std::size_t at = 0; at < records.size(); at += step) {
      const std::string_view record = records.substr(at, step);
      Key key{};
      Value value{};
      read(record.substr(0, key_bytes), key);
      read(record.substr(key_bytes), value);
      ascending = ascending && (at == 0 ? !(key < before) : before < key);
      before = key;
      const bool is_cut_start = start < from && key == start;
      if (!is_cut_start) out.append(key, value);
    }
    if (!ascending) library_->count_impossible_scan();
  }

  std::unique_ptr<PluginLibrary> library_;
};

template <class Keys>
Result<std::unique_ptr<OrderedIndex<Keys>>> load(PluginOptions options) {
  if (Keys::kind == KeyKind::integer) options.key_bytes = options.value_bytes = 8;
  auto library = PluginLibrary::load(options);
  if (!library) return library.error();
  return std::unique_ptr<OrderedIndex<Keys>>(
      std::make_unique<PluginIndex<Keys>>(std::move(library).value()));
}

template <class Keys>
PluginViolations violations_of(const OrderedIndex<Keys>& index) {
  const auto* const plugin = dynamic_cast<const PluginIndex<Keys>*>(&index);
  return plugin == nullptr ? PluginViolations{} : plugin->violations();
}

}  // namespace

template <>
Result<std::unique_ptr<IntegerIndex>> load_plugin<IntegerKeys>(const PluginOptions& options) {
  return load<IntegerKeys>(options);
}
template <>
Result<std::unique_ptr<BytesIndex>> load_plugin<ByteKeys>(const PluginOptions& options) {
  return load<ByteKeys>(options);
}
template <>
PluginViolations plugin_violations<IntegerKeys>(const IntegerIndex& index) {
  return violations_of<IntegerKeys>(index);
}
template <>
PluginViolations plugin_violations<ByteKeys>(const BytesIndex& index) {
  return violations_of<ByteKeys>(index);
}

template <>
Result<std::unique_ptr<SlotIndex>> load_plugin<SlotKeys>(const PluginOptions& options) {
  return Error{ErrorCode::unsupported, "values of another length than 8 beside integer keys",
               options.library, "leave --value-bytes out"};
}
template <>
PluginViolations plugin_violations<SlotKeys>(const SlotIndex&) {
  return {};
}

}  // namespace perdure

// libperdure_pibench.so: any registered index as a PiBench wrapper, configured by the environment
// (export_settings.h).
//
// Keys of 8 bytes with values of 8 go to an IntegerIndex, native-endian. All other sizes go to a
// BytesIndex; keys of 8 bytes are then turned big-endian, so that they keep their numeric order.
// A false answer also stands for what the interface cannot say (out of space): the first one is
// explained on stderr.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "index/registry.h"
#include "pibench/export_settings.h"
#include "pibench/tree_api.h"
#include "pm/pm.h"
#include "pool/occupant.h"
#include "pool/pool.h"

namespace perdure {
namespace {

void complain(const std::string& line) { std::fprintf(stderr, "perdure: %s\n", line.c_str()); }

/// How keys and values of one kind go over the interface.
template <class Keys>
class Wire;

template <>
class Wire<IntegerKeys> {
 public:
  explicit Wire(const tree_options_t&) {}
  [[nodiscard]] bool takes(std::size_t key_bytes) const { return key_bytes == 8; }
  [[nodiscard]] bool takes(std::size_t key_bytes, std::size_t value_bytes) const {
    return key_bytes == 8 && value_bytes == 8;
  }
  struct Key {
    Key(const Wire&, const char* raw, std::size_t) { std::memcpy(&word, raw, sizeof word); }
    [[nodiscard]] std::uint64_t get() const { return word; }
    std::uint64_t word = 0;
  };
  [[nodiscard]] static std::uint64_t value(const char* raw, std::size_t) {
    std::uint64_t word = 0;
    std::memcpy(&word, raw, sizeof word);
    return word;
  }
  void put_value(std::uint64_t value, char* out) const { std::memcpy(out, &value, sizeof value); }
  void put_record(const IntegerRecord& record, std::string& out) const {
    const std::array<std::uint64_t, 2> words = {record.key, record.value};
    out.append(reinterpret_cast<const char*>(words.data()), sizeof words);
  }
};

template <>
class Wire<ByteKeys> {
 public:
  explicit Wire(const tree_options_t& options)
      : swaps_(options.key_size == 8), value_bytes_(options.value_size) {}
  [[nodiscard]] bool takes(std::size_t key_bytes) const {
    return swaps_ ? key_bytes == 8 : key_bytes <= max_key_bytes;
  }
  // The host's buffer for answers has room for `value_bytes_`, so nothing longer may be kept.
  [[nodiscard]] bool takes(std::size_t key_bytes, std::size_t value_bytes) const {
    return takes(key_bytes) && value_bytes <= value_bytes_;
  }
  struct Key {
    Key(const Wire& wire, const char* raw, std::size_t bytes) : text(raw, bytes) {
      if (!wire.swaps_) return;
      std::reverse_copy(raw, raw + bytes, swapped.begin());
      text = {swapped.data(), bytes};
    }
    Key(const Key&) = delete;
    Key& operator=(const Key&) = delete;
    [[nodiscard]] std::string_view get() const { return text; }
    std::array<char, 8> swapped{};
    std::string_view text;
  };
  [[nodiscard]] static std::string_view value(const char* raw, std::size_t bytes) {
    return {raw, bytes};
  }
  void put_value(const std::string& value, char* out) const {
    std::memcpy(out, value.data(), value.size());
  }
  void put_record(const BytesRecord& record, std::string& out) const {
    if (swaps_)
      out.append(record.key.rbegin(), record.key.rend());
    else
      out.append(record.key);
    out.append(record.value);
  }

 private:
  bool swaps_;
  std::size_t value_bytes_;
};

template <class Keys>
class ExportedTree final : public tree_api {
 public:
  using Index = OrderedIndex<Keys>;

  ExportedTree(std::unique_ptr<Pool> pool, std::unique_ptr<Index> index,
               const tree_options_t& options)
      : pool_(std::move(pool)), index_(std::move(index)), wire_(options) {}

  ~ExportedTree() override {
    index_.reset();
    if (pool_ == nullptr) return;
    if (const auto closed = pool_->close(); !closed) complain(closed.error().line());
  }

  bool find(const char* key, std::size_t key_size, char* value_out) override {
    if (!wire_.takes(key_size)) return refuse(Outcome::invalid);
    auto& value = mine().value;
    if (index_->lookup(WireKey(wire_, key, key_size).get(), value) != Outcome::ok) return false;
    wire_.put_value(value, value_out);
    return true;
  }

  bool insert(const char* key, std::size_t key_size, const char* value,
              std::size_t value_size) override {
    if (!wire_.takes(key_size, value_size)) return refuse(Outcome::invalid);
    return answer(
        index_->insert(WireKey(wire_, key, key_size).get(), wire_.value(value, value_size)));
  }

  bool update(const char* key, std::size_t key_size, const char* value,
              std::size_t value_size) override {
    if (!wire_.takes(key_size, value_size)) return refuse(Outcome::invalid);
    return answer(
        index_->update(WireKey(wire_, key, key_size).get(), wire_.value(value, value_size)));
  }

  bool remove(const char* key, std::size_t key_size) override {
    if (!wire_.takes(key_size)) return refuse(Outcome::invalid);
    return answer(index_->remove(WireKey(wire_, key, key_size).get()));
  }

  int scan(const char* key, std::size_t key_size, int scan_size, char*& values_out) override {
    Scratch& scratch = mine();
    scratch.records.clear();
    values_out = scratch.records.data();
    if (scan_size <= 0) return 0;
    if (!wire_.takes(key_size)) return static_cast<int>(refuse(Outcome::invalid));
    index_->scan(WireKey(wire_, key, key_size).get(), static_cast<std::size_t>(scan_size),
                 scratch.scan);
    for (std::size_t i = 0; i < scratch.scan.size(); ++i)
      wire_.put_record(scratch.scan[i], scratch.records);
    values_out = scratch.records.data();
    return static_cast<int>(scratch.scan.size());
  }

 private:
  using WireKey = typename Wire<Keys>::Key;

  // One thread's: what `scan` hands out lasts until this thread's next scan.
  struct alignas(pm::cache_line_bytes) Scratch {
    typename Keys::ValueOut value{};
    typename Keys::Scan scan;
    std::string records;
  };

  [[nodiscard]] Scratch& mine() {
    std::unique_ptr<Scratch>& scratch = scratch_[pm::thread_slot()];
    if (scratch == nullptr) scratch = std::make_unique<Scratch>();
    return *scratch;
  }

  [[nodiscard]] bool answer(Outcome outcome) {
    if (outcome == Outcome::out_of_space || outcome == Outcome::invalid) return refuse(outcome);
    return outcome == Outcome::ok;
  }

  [[nodiscard]] bool refuse(Outcome outcome) {
    if (!complained_.exchange(true, std::memory_order_relaxed))
      complain(std::string("an operation came to ") + name_of(outcome) +
               (outcome == Outcome::invalid
                    ? ": keys and values must have the sizes that PiBench announced"
                    : ": give it a larger pool (--pool_size or PERDURE_POOL_BYTES)"));
    return false;
  }

  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Index> index_;
  Wire<Keys> wire_;
  std::array<std::unique_ptr<Scratch>, pm::max_threads> scratch_;
  std::atomic<bool> complained_{false};
};

Result<std::unique_ptr<Pool>> create_pool(const ExportSettings& settings) {
  if (settings.info->index_class != IndexClass::persistent) return std::unique_ptr<Pool>();
  PoolOptions options;
  options.path = settings.pool_path;
  options.heap = settings.heap;
  options.bytes = settings.pool_bytes;
  return Pool::create(options);
}

template <class Keys>
Result<tree_api*> make_tree(const ExportSettings& settings, const tree_options_t& options) {
  auto pool = create_pool(settings);
  if (!pool) return pool.error();
  IndexPlace place;
  place.pool = pool.value().get();
  place.path = settings.pool_path;
  place.capacity_bytes = settings.pool_bytes;
  place.options = settings.options;
  place.threads = settings.threads;
  auto index = create_index<Keys>(*settings.info, place);
  if (!index) {
    // A second try would find the file there. It goes while its lock says that it is ours.
    if (place.pool != nullptr && settings.heap != HeapKind::dram &&
        settings.heap != HeapKind::memkind)
      if (const auto made = MadeFile::at(settings.pool_path)) made->remove();
    pool.value().reset();
    return index.error();
  }
  return new ExportedTree<Keys>(std::move(pool).value(), std::move(index).value(), options);
}

Result<tree_api*> make_tree(const tree_options_t& options) {
  const auto settings = ExportSettings::read(options);
  if (!settings) return settings.error();
  pm::configure(settings->durability);
  if (options.key_size == 8 && options.value_size == 8)
    return make_tree<IntegerKeys>(*settings, options);
  return make_tree<ByteKeys>(*settings, options);
}

}  // namespace
}  // namespace perdure

/// PiBench calls this once. Null, after one line on stderr, when the environment or the pool is
/// wrong: PiBench then ends with an error of its own.
extern "C" __attribute__((visibility("default"))) tree_api* create_tree(
    const tree_options_t& options) {
  try {
    const auto tree = perdure::make_tree(options);
    if (tree) return *tree;
    perdure::complain(tree.error().line());
  } catch (const std::exception& exception) {
    perdure::complain(exception.what());
  }
  return nullptr;
}

#include "index/lmdb/layered_keys.h"

#include <cstring>

#include "core/assert.h"

namespace perdure::lmdb {
namespace {

constexpr std::size_t deepest = max_key_bytes / slice_bytes + 1;

MDB_val layers_key() { return value_of("layers", 6); }

}  // namespace

LayeredKeys::Entry::Entry(std::uint64_t layer, std::string_view slice, End end) noexcept
    : size_(prefix_bytes(layer)) {
  PERDURE_ASSERT(slice.size() <= slice_bytes);
  bytes_[0] = layer == 0 ? 0 : 1;
  for (std::size_t i = 1; i < size_; ++i) bytes_[i] = static_cast<char>(layer >> (8 * (8 - i)));
  if (!slice.empty()) std::memcpy(bytes_.data() + size_, slice.data(), slice.size());
  size_ += slice.size();
  if (slice.size() == slice_bytes) bytes_[size_++] = static_cast<char>(end);
}

int LayeredKeys::layer_of(const MDB_val& value, std::uint64_t& layer) noexcept {
  if (value.mv_size != sizeof layer) return MDB_CORRUPTED;
  std::memcpy(&layer, value.mv_data, sizeof layer);
  return layer == 0 ? MDB_CORRUPTED : 0;
}

int LayeredKeys::next_layer(MDB_txn* transaction, const Step& step, std::uint64_t& layer) const {
  const Entry entry(step.layer, step.slice, End::continued);
  MDB_val key = entry.get();
  MDB_val value;
  const int failure = mdb_get(transaction, environment_.records(), &key, &value);
  return failure != 0 ? failure : layer_of(value, layer);
}

int LayeredKeys::make_layer(MDB_txn* transaction, const Step& step, std::uint64_t& layer) {
  Layers layers;
  int failure = this->layers(transaction, layers);
  if (failure != 0) return failure;
  layer = layers.next++;
  ++layers.live;
  failure = set_layers(transaction, layers);
  if (failure != 0) return failure;
  const Entry entry(step.layer, step.slice, End::continued);
  MDB_val key = entry.get();
  MDB_val value = value_of(&layer, sizeof layer);
  return mdb_put(transaction, environment_.records(), &key, &value, 0);
}

int LayeredKeys::find(MDB_txn* transaction, std::string_view key, MDB_val& value) const {
  std::uint64_t layer = 0;
  for (; key.size() > slice_bytes; key.remove_prefix(slice_bytes))
    if (const int failure = next_layer(transaction, {layer, key.substr(0, slice_bytes)}, layer);
        failure != 0)
      return failure;
  const Entry entry(layer, key, End::whole);
  MDB_val at = entry.get();
  return mdb_get(transaction, environment_.records(), &at, &value);
}

int LayeredKeys::put(MDB_txn* transaction, std::string_view key, std::string_view value,
                     unsigned flags) {
  std::uint64_t layer = 0;
  for (; key.size() > slice_bytes; key.remove_prefix(slice_bytes)) {
    const Step step{layer, key.substr(0, slice_bytes)};
    int failure = next_layer(transaction, step, layer);
    if (failure == MDB_NOTFOUND) failure = make_layer(transaction, step, layer);
    if (failure != 0) return failure;
  }
  const Entry entry(layer, key, End::whole);
  MDB_val at = entry.get();
  MDB_val content = value_of(value.data(), value.size());
  return mdb_put(transaction, environment_.records(), &at, &content, flags);
}

int LayeredKeys::erase(MDB_txn* transaction, std::string_view key) {
  std::array<Step, deepest> path;
  std::size_t depth = 0;
  std::uint64_t layer = 0;
  for (; key.size() > slice_bytes; key.remove_prefix(slice_bytes)) {
    if (depth == path.size()) return MDB_NOTFOUND;  // longer than any key that was put
    path[depth] = {layer, key.substr(0, slice_bytes)};
    if (const int failure = next_layer(transaction, path[depth++], layer); failure != 0)
      return failure;
  }
  const Entry entry(layer, key, End::whole);
  MDB_val at = entry.get();
  int failure = mdb_del(transaction, environment_.records(), &at, nullptr);
  for (bool empty = false; failure == 0 && depth > 0; layer = path[depth].layer) {  // K2
    failure = is_empty(transaction, layer, empty);
    if (failure != 0 || !empty) break;
    --depth;
    const Entry name(path[depth].layer, path[depth].slice, End::continued);
    at = name.get();
    failure = mdb_del(transaction, environment_.records(), &at, nullptr);
    Layers layers;
    if (failure == 0) failure = this->layers(transaction, layers);
    --layers.live;  // K4
    if (failure == 0) failure = set_layers(transaction, layers);
  }
  return failure;
}

int LayeredKeys::is_empty(MDB_txn* transaction, std::uint64_t layer, bool& empty) const {
  MDB_cursor* cursor = nullptr;
  int failure = mdb_cursor_open(transaction, environment_.records(), &cursor);
  if (failure != 0) return failure;
  const Entry lowest(layer, {}, End::whole);
  MDB_val at = lowest.get();
  MDB_val value;
  failure = mdb_cursor_get(cursor, &at, &value, MDB_SET_RANGE);
  empty =
      failure == MDB_NOTFOUND || (failure == 0 && !view_of(at).starts_with(view_of(lowest.get())));
  mdb_cursor_close(cursor);
  return failure == MDB_NOTFOUND ? 0 : failure;
}

int LayeredKeys::layers(MDB_txn* transaction, Layers& layers) const {
  MDB_val key = layers_key();
  MDB_val value;
  const int failure = mdb_get(transaction, environment_.meta(), &key, &value);
  layers = {};
  if (failure == MDB_NOTFOUND) return 0;
  if (failure != 0) return failure;
  if (value.mv_size != sizeof layers) return MDB_CORRUPTED;
  std::memcpy(&layers, value.mv_data, sizeof layers);
  return 0;
}

int LayeredKeys::set_layers(MDB_txn* transaction, const Layers& layers) {
  MDB_val key = layers_key();
  MDB_val value = value_of(&layers, sizeof layers);
  return mdb_put(transaction, environment_.meta(), &key, &value, 0);
}

}  // namespace perdure::lmdb

#include "index/registry.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/suggest.h"

namespace perdure {
namespace {

std::vector<IndexInfo>& registered() {
  static std::vector<IndexInfo> list;
  return list;
}

#ifdef PERDURE_SIM
/// What cmake/PerdureSimulation.cmake leaves out: they live in foreign libraries, without hooks.
constexpr std::array<std::string_view, 3> native_only{"lmdb", "rocksdb", "tbbmap"};
#else
constexpr std::array<std::string_view, 0> native_only{};
#endif

Error usage(std::string what, std::string where, std::string remedy) {
  return {ErrorCode::usage, std::move(what), std::move(where), std::move(remedy)};
}

template <class Keys>
Error lacks(const IndexInfo& info, const char* what) {
  return {ErrorCode::unsupported,
          info.name + " has no " + what + " for " + name_of(Keys::kind) + " keys", "--index",
          "`perdure list indexes` shows what each index offers"};
}

}  // namespace

const char* name_of(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::ok:
      return "ok";
    case Outcome::exists:
      return "exists";
    case Outcome::not_found:
      return "not_found";
    case Outcome::out_of_space:
      return "out_of_space";
    case Outcome::invalid:
      return "invalid";
  }
  return "?";
}

const char* name_of(KeyKind kind) noexcept {
  switch (kind) {
    case KeyKind::integer:
      return "integer";
    case KeyKind::bytes:
      return "bytes";
    case KeyKind::slots:
      return "slots";
  }
  return "?";
}

const char* name_of(Tearing tearing) noexcept {
  switch (tearing) {
    case Tearing::nothing:
      return "nothing";
    case Tearing::values:
      return "values";
    case Tearing::structure:
      return "structure";
  }
  return "?";
}

const char* name_of(LockKind kind) noexcept {
  switch (kind) {
    case LockKind::none:
      return "none";
    case LockKind::readers_writer:
      return "rw";
    case LockKind::pthread:
      return "pthread";
    case LockKind::pthread_pm:
      return "pthread-pm";
    case LockKind::pmemobj:
      return "pmemobj";
    case LockKind::buckets:
      return "buckets";
  }
  return "?";
}

const char* name_of(IndexClass index_class) noexcept {
  switch (index_class) {
    case IndexClass::persistent:
      return "persistent";
    case IndexClass::in_memory:
      return "in_memory";
    case IndexClass::volatile_pm:
      return "volatile_pm";
    case IndexClass::on_disk:
      return "on_disk";
    case IndexClass::harness:
      return "harness";
  }
  return "?";
}

std::uint64_t IndexOptions::get(std::string_view name) const {
  const auto found = std::ranges::find(choices_, name, &Choice::name);
  PERDURE_ASSERT(found != choices_.end());
  return found == choices_.end() ? 0 : found->value;
}

void IndexOptions::set(std::string name, std::uint64_t value) {
  const auto found = std::ranges::find(choices_, name, &Choice::name);
  if (found == choices_.end())
    choices_.push_back({std::move(name), value});
  else
    found->value = value;
}

namespace {
constexpr const char* node_pools_name = "node_pools";
}

std::uint64_t IndexOptions::node_pools() const noexcept {
  const auto found = std::ranges::find(choices_, node_pools_name, &Choice::name);
  return found == choices_.end() ? 0 : found->value;
}

unsigned IndexOptions::pool_parts(std::size_t nodes) const noexcept {
  return static_cast<unsigned>(std::clamp<std::uint64_t>(node_pools() * nodes, 1, Pool::max_parts));
}

IndexOption node_pools_option() {
  return {.name = node_pools_name,
          .description = "pools for each NUMA node, PATH, PATH.1, ...; 0: one for all",
          .fallback = 0,
          .least = 0,
          .most = 8};
}

std::span<const IndexInfo> IndexRegistry::all() { return registered(); }

Result<const IndexInfo*> IndexRegistry::find(std::string_view name) {
  const auto& list = registered();
  // The last of a name is its default mode.
  const auto found = std::ranges::find_if(list.rbegin(), list.rend(), [&](const IndexInfo& info) {
    return info.name == name || info.full_name() == name;
  });
  if (found != list.rend()) return &*found;
  if (std::ranges::find(native_only, name) != native_only.end())
    return Error{ErrorCode::unsupported,
                 std::string(name) + " lives in a foreign library, which no simulation sees",
                 "--index " + std::string(name), "give --target native"};
  std::vector<std::string> names;
  const std::string_view structure = name.substr(0, name.find(':'));
  const auto known = std::ranges::find(list, structure, &IndexInfo::name);
  if (structure != name && known != list.end()) {
    for (const IndexInfo& info : list)
      if (info.name == structure && !info.mode.empty()) names.push_back(info.mode);
    return usage(std::string(structure) + " has no mode '" +
                     std::string(name.substr(structure.size() + 1)) + "'",
                 "--mode",
                 suggestion(name.substr(structure.size() + 1), names,
                            names.empty() ? "leave it out" : "`perdure list indexes` shows them"));
  }
  for (const IndexInfo& info : list)
    if (names.empty() || names.back() != info.name) names.push_back(info.name);
  return usage("no index is named '" + std::string(name) + "'", "--index",
               suggestion(name, names, "`perdure list indexes` shows them"));
}

Result<IndexOptions> IndexRegistry::options(const IndexInfo& info,
                                            std::span<const std::string> pairs) {
  IndexOptions chosen;
  std::vector<std::string> names;
  for (const IndexOption& option : info.options) {
    chosen.set(option.name, option.fallback);
    names.push_back(option.name);
  }
  for (const std::string& pair : pairs) {
    const std::string where = "--option " + pair;
    const auto equals = pair.find('=');
    if (equals == std::string::npos)
      return usage("an option is name=value", where, "write --option leaf_entries=32");
    const std::string name = pair.substr(0, equals);
    const auto declared = std::ranges::find(info.options, name, &IndexOption::name);
    if (declared == info.options.end())
      return usage(info.name + " has no option '" + name + "'", where,
                   suggestion(name, names, "`perdure list indexes` shows the options"));
    std::uint64_t value = 0;
    const char* const first = pair.data() + equals + 1;
    const char* const last = pair.data() + pair.size();
    const auto [end, failure] = std::from_chars(first, last, value);
    if (failure != std::errc{} || end != last || value < declared->least || value > declared->most)
      return usage("'" + pair.substr(equals + 1) + "' is not a value of " + name, where,
                   "give a whole number from " + std::to_string(declared->least) + " to " +
                       std::to_string(declared->most));
    chosen.set(name, value);
  }
  return chosen;
}

namespace {

// An index that is served before its recovery has ended has not counted its records yet.
template <class Keys>
Result<std::unique_ptr<OrderedIndex<Keys>>> compared(
    Result<std::unique_ptr<OrderedIndex<Keys>>> recovered, const IndexPlace& place) {
  if (!recovered || place.pool == nullptr || place.pool->is_recovering() ||
      !place.pool->expects_records())
    return recovered;
  const auto same = place.pool->check_records(place.root_name, (*recovered)->size());
  if (!same) return same.error();
  return recovered;
}

}  // namespace

bool IndexInfo::offers(KeyKind kind) const noexcept {
  return kind == KeyKind::integer ? create_integer != nullptr
         : kind == KeyKind::bytes ? create_bytes != nullptr
                                  : create_slots != nullptr;
}

bool IndexInfo::recovers(KeyKind kind) const noexcept {
  return kind == KeyKind::integer ? recover_integer != nullptr
         : kind == KeyKind::bytes ? recover_bytes != nullptr
                                  : recover_slots != nullptr;
}

bool IndexRegistry::add(IndexInfo info) {
  auto& list = registered();
  const std::vector<IndexMode> modes = std::move(info.modes);
  info.modes.clear();
  for (const IndexMode& mode : modes) {
    IndexInfo with = info;
    with.mode = mode.name;
    with.index_class = mode.index_class;
    with.tearing = mode.tearing;
    with.heaps = mode.heaps;
    with.locks = mode.locks;
    with.create_slots = mode.create_slots;
    with.recover_slots = mode.recover_slots;
    add(std::move(with));
  }
  if (!modes.empty()) return true;
  list.insert(std::ranges::upper_bound(list, info.name, {}, &IndexInfo::name), std::move(info));
  return true;
}

template <>
Result<std::unique_ptr<IntegerIndex>> create_index<IntegerKeys>(const IndexInfo& info,
                                                                const IndexPlace& place) {
  if (info.create_integer == nullptr) return lacks<IntegerKeys>(info, "creation");
  return info.create_integer(place);
}

template <>
Result<std::unique_ptr<BytesIndex>> create_index<ByteKeys>(const IndexInfo& info,
                                                           const IndexPlace& place) {
  if (info.create_bytes == nullptr) return lacks<ByteKeys>(info, "creation");
  return info.create_bytes(place);
}

template <>
Result<std::unique_ptr<SlotIndex>> create_index<SlotKeys>(const IndexInfo& info,
                                                          const IndexPlace& place) {
  if (info.create_slots == nullptr) return lacks<SlotKeys>(info, "creation");
  return info.create_slots(place);
}

template <>
Result<std::unique_ptr<IntegerIndex>> recover_index<IntegerKeys>(const IndexInfo& info,
                                                                 const IndexPlace& place) {
  if (info.recover_integer == nullptr) return lacks<IntegerKeys>(info, "recovery");
  return compared(info.recover_integer(place), place);
}

template <>
Result<std::unique_ptr<BytesIndex>> recover_index<ByteKeys>(const IndexInfo& info,
                                                            const IndexPlace& place) {
  if (info.recover_bytes == nullptr) return lacks<ByteKeys>(info, "recovery");
  return compared(info.recover_bytes(place), place);
}

template <>
Result<std::unique_ptr<SlotIndex>> recover_index<SlotKeys>(const IndexInfo& info,
                                                           const IndexPlace& place) {
  if (info.recover_slots == nullptr) return lacks<SlotKeys>(info, "recovery");
  return compared(info.recover_slots(place), place);
}

}  // namespace perdure

#include "index/registry.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/assert.h"
#include "core/suggest.h"
#include "pm/persist.h"

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
          info.name + " has no " + what + " for " + name_of(Keys::kind) + " keys",
          "IndexRegistry::find " + info.full_name(),
          "IndexRegistry::all shows what each index offers"};
}

Result<void> choose(const DeclaredOptions& declared_options, IndexOptions& chosen,
                    const std::string& name, std::optional<std::uint64_t> value,
                    const std::string& text) {
  const auto& [owner, options] = declared_options;
  const std::string where = "IndexPlace::options " + name + "=" + text;
  const auto declared = std::ranges::find(options, name, &IndexOption::name);
  if (declared == options.end()) {
    std::vector<std::string> names;
    for (const IndexOption& option : options) names.push_back(option.name);
    return usage(std::string(owner) + " has no option '" + name + "'", where,
                 suggestion(name, names, "IndexRegistry::all shows the options"));
  }
  if (!value || *value < declared->least || *value > declared->most)
    return usage("'" + text + "' is not a value of " + name, where,
                 "give a whole number from " + std::to_string(declared->least) + " to " +
                     std::to_string(declared->most));
  chosen.set(name, *value);
  return {};
}

IndexOptions defaults_of(std::span<const IndexOption> options) {
  IndexOptions chosen;
  for (const IndexOption& option : options) chosen.set(option.name, option.fallback);
  return chosen;
}

std::string listed(const auto& things, const char* before_last) {
  std::string text;
  for (std::size_t i = 0; i < things.size(); ++i)
    text += (i == 0 ? "" : i + 1 == things.size() ? before_last : ", ") + std::string(things[i]);
  return text;
}

/// The heaps that an index in a pool works on: a memkind pool keeps nothing.
std::vector<const char*> suitable_heaps(const IndexInfo& info) {
  std::vector<const char*> names;
  for (const HeapKind kind : {HeapKind::slab, HeapKind::pmdk, HeapKind::dram, HeapKind::memkind})
    if (info.works_on(kind)) names.push_back(name_of(kind));
  return names;
}

/// `place` with every option that `info` declares, or what is wrong with it.
Result<IndexPlace> completed(const IndexInfo& info, const IndexPlace& place) {
  IndexPlace whole = place;
  Result<IndexOptions> options = with_defaults({info.name, info.options}, place.options);
  if (!options) return options.error();
  whole.options = std::move(options).value();
  whole.threads = std::max(whole.threads, 1U);
  if (info.needs_eadr && pm::persist_mode().durability == pm::Durability::adr)
    return Error{ErrorCode::unsupported, info.full_name() + " keeps nothing under adr",
                 "IndexRegistry::find " + info.full_name(), "run it with pm::Durability::eadr"};
  if (!info.locks.empty() && std::ranges::find(info.locks, place.lock) == info.locks.end()) {
    std::vector<const char*> names;
    for (const LockKind kind : info.locks) names.push_back(name_of(kind));
    return usage(info.full_name() + " has no such lock",
                 std::string("IndexPlace::lock ") + name_of(place.lock),
                 "choose " + listed(names, " or "));
  }
  if (!uses_pool(info.index_class)) return whole;
  if (place.pool == nullptr)
    return usage(info.full_name() + " lives in a pool", "IndexPlace::pool",
                 "make one with Pool::create, or open one");
  if (!info.works_on(place.pool->heap_kind()))
    return Error{ErrorCode::unsupported, info.full_name() + " needs a pool with another heap",
                 place.pool->path().empty() ? "IndexPlace::pool" : place.pool->path(),
                 "give PoolOptions::heap " + listed(suitable_heaps(info), " or ")};
  return whole;
}

}  // namespace

Result<void> check_recovered(const Pool* pool) {
  if (pool == nullptr || pool->ready()) return {};
  std::vector<std::string> names;
  for (const PoolRoot& root : pool->roots()) names.push_back("'" + root.name + "'");
  return usage("the pool is not recovered yet", pool->path(),
               "recover its roots first: " + listed(names, " and "));
}

Result<IndexOptions> with_defaults(const DeclaredOptions& declared, const IndexOptions& given) {
  IndexOptions whole = defaults_of(declared.options);
  for (const IndexOptions::Choice& choice : given.choices())
    if (auto chosen =
            choose(declared, whole, choice.name, choice.value, std::to_string(choice.value));
        !chosen)
      return chosen.error();
  return whole;
}

Result<IndexOptions> parse_options(const DeclaredOptions& declared,
                                   std::span<const std::string> pairs) {
  IndexOptions chosen = defaults_of(declared.options);
  for (const std::string& pair : pairs) {
    const auto equals = pair.find('=');
    if (equals == std::string::npos)
      return usage("an option is name=value", "IndexPlace::options " + pair,
                   "write IndexPlace::options leaf_entries=32");
    const std::string text = pair.substr(equals + 1);
    std::uint64_t value = 0;
    const char* const last = text.data() + text.size();
    const auto [end, failure] = std::from_chars(text.data(), last, value);
    const bool whole = failure == std::errc{} && end == last;
    if (auto known = choose(declared, chosen, pair.substr(0, equals),
                            whole ? std::optional(value) : std::nullopt, text);
        !known)
      return known.error();
  }
  return chosen;
}

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

const char* name_of(Progress progress) noexcept {
  return progress == Progress::lock_free ? "lock-free" : "blocking";
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
  // In every build: with 0 for a size a tree would never end to split.
  if (found == choices_.end()) assertion_failed("the option was chosen", __FILE__, __LINE__);
  return found->value;
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

std::uint64_t background_threads(const DeclaredOptions& declared, const IndexOptions& given) {
  std::uint64_t threads = 0;
  for (const IndexOption& option : declared.options) {
    if (!option.counts_threads) continue;
    const auto chosen =
        std::ranges::find(given.choices(), option.name, &IndexOptions::Choice::name);
    threads += chosen == given.choices().end() ? option.fallback : chosen->value;
  }
  return threads;
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
                 "IndexRegistry::find " + std::string(name), "take the native build"};
  std::vector<std::string> names;
  const std::string_view structure = name.substr(0, name.find(':'));
  const auto known = std::ranges::find(list, structure, &IndexInfo::name);
  if (structure != name && known != list.end()) {
    for (const IndexInfo& info : list)
      if (info.name == structure && !info.mode.empty()) names.push_back(info.mode);
    return usage(std::string(structure) + " has no mode '" +
                     std::string(name.substr(structure.size() + 1)) + "'",
                 "IndexInfo::mode",
                 suggestion(name.substr(structure.size() + 1), names,
                            names.empty() ? "leave it out" : "IndexRegistry::all shows them"));
  }
  for (const IndexInfo& info : list)
    if (names.empty() || names.back() != info.name) names.push_back(info.name);
  return usage("no index is named '" + std::string(name) + "'", "IndexRegistry::find",
               suggestion(name, names, "IndexRegistry::all shows them"));
}

Result<IndexOptions> IndexRegistry::options(const IndexInfo& info,
                                            std::span<const std::string> pairs) {
  return parse_options({info.name, info.options}, pairs);
}

namespace {

// An index that is served before its recovery has ended has not counted its records yet.
template <class Keys>
MadeIndex<Keys> compared(MadeIndex<Keys> recovered, const IndexPlace& place) {
  if (!recovered || place.pool == nullptr || place.pool->is_recovering() ||
      !place.pool->expects_records())
    return recovered;
  const auto same = place.pool->check_records(place.root_name, (*recovered)->size());
  if (!same) return same.error();
  return recovered;
}

template <class Keys, class Function>
MadeIndex<Keys> created(const IndexInfo& info, Function create, const IndexPlace& place) {
  if (create == nullptr) return lacks<Keys>(info, "creation");
  if (auto recovered = check_recovered(place.pool); !recovered) return recovered.error();
  const Result<IndexPlace> whole = completed(info, place);
  return whole ? create(*whole) : whole.error();
}

template <class Keys, class Function>
MadeIndex<Keys> recovered(const IndexInfo& info, Function recover, const IndexPlace& place) {
  if (recover == nullptr) return lacks<Keys>(info, "recovery");
  const Result<IndexPlace> whole = completed(info, place);
  return whole ? compared(recover(*whole), *whole) : whole.error();
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

bool IndexInfo::works_on(HeapKind heap) const noexcept {
  if (heaps.empty()) return heap != HeapKind::memkind || index_class != IndexClass::persistent;
  return std::ranges::find(heaps, heap) != heaps.end();
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
MadeIndex<IntegerKeys> create_index<IntegerKeys>(const IndexInfo& info, const IndexPlace& place) {
  return created<IntegerKeys>(info, info.create_integer, place);
}

template <>
MadeIndex<IntegerKeys> recover_index<IntegerKeys>(const IndexInfo& info, const IndexPlace& place) {
  return recovered<IntegerKeys>(info, info.recover_integer, place);
}

template <>
MadeIndex<ByteKeys> create_index<ByteKeys>(const IndexInfo& info, const IndexPlace& place) {
  return created<ByteKeys>(info, info.create_bytes, place);
}

template <>
MadeIndex<ByteKeys> recover_index<ByteKeys>(const IndexInfo& info, const IndexPlace& place) {
  return recovered<ByteKeys>(info, info.recover_bytes, place);
}

template <>
MadeIndex<SlotKeys> create_index<SlotKeys>(const IndexInfo& info, const IndexPlace& place) {
  return created<SlotKeys>(info, info.create_slots, place);
}

template <>
MadeIndex<SlotKeys> recover_index<SlotKeys>(const IndexInfo& info, const IndexPlace& place) {
  return recovered<SlotKeys>(info, info.recover_slots, place);
}

}  // namespace perdure

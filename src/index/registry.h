// The registry: every index announces itself here, and so enrols in the CLI and in the conformance,
// recovery, crash and determinism suites.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "index/index.h"
#include "index/media_layout.h"
#include "pool/pool.h"

namespace perdure {

/// An option of an index, as `--option name=value` on the command line.
struct IndexOption {
  std::string name;         ///< "leaf_entries"
  std::string description;  ///< one line, with the unit
  std::uint64_t fallback;   ///< default, as in the study
  std::uint64_t least;
  std::uint64_t most;
  /// Its value is a number of threads that work beside those that call (pm/background_thread.h).
  bool counts_threads = false;
};

/// Chosen values. `create_index` and `recover_index` check names and ranges and fill in the
/// defaults of what is not chosen.
class IndexOptions {
 public:
  struct Choice {
    std::string name;
    std::uint64_t value;
  };

  /// The value of an option that the index has declared; ends the program if there is none.
  [[nodiscard]] std::uint64_t get(std::string_view name) const;
  void set(std::string name, std::uint64_t value);
  /// Pools for each NUMA node (`node_pools_option`); 0: one for all.
  [[nodiscard]] std::uint64_t node_pools() const noexcept;
  /// How many parts the pool is made of, on a machine with so many nodes that hold any.
  [[nodiscard]] unsigned pool_parts(std::size_t nodes = 1) const noexcept;
  [[nodiscard]] const std::vector<Choice>& choices() const noexcept { return choices_; }

 private:
  std::vector<Choice> choices_;
};

/// Options of something that is registered, an index or a queue (lockfree/base/queue_registry.h).
struct DeclaredOptions {
  std::string_view owner;  ///< for errors
  std::span<const IndexOption> options;
};
/// Threads that it keeps beside those that call it, with `given` and the defaults.
[[nodiscard]] std::uint64_t background_threads(const DeclaredOptions& declared,
                                               const IndexOptions& given);
/// `given` with the defaults of all that it does not name. Errors: usage (no such option, a value
/// out of range).
[[nodiscard]] Result<IndexOptions> with_defaults(const DeclaredOptions& declared,
                                                 const IndexOptions& given);
/// The same from `name=value` pairs.
[[nodiscard]] Result<IndexOptions> parse_options(const DeclaredOptions& declared,
                                                 std::span<const std::string> pairs);
/// Before something is created in a pool: no block can be had before every root has said what is
/// its own. Errors: usage, naming the roots.
[[nodiscard]] Result<void> check_recovered(const Pool* pool);

/// What an index declares that can live in a pool of several parts. Whoever makes its pool obeys;
/// the index allocates as ever, and gets what is near (pool/parts_heap.h).
[[nodiscard]] IndexOption node_pools_option();

/// Where an index keeps its records.
enum class IndexClass : std::uint8_t {
  persistent,   ///< in a Pool; recovers
  in_memory,    ///< in DRAM; needs no pool and keeps nothing
  volatile_pm,  ///< in a Pool used as volatile memory; keeps nothing
  on_disk,      ///< a foreign storage engine with files of its own below `IndexPlace::path`
  harness,      ///< does nothing: measures the harness
};
[[nodiscard]] const char* name_of(IndexClass index_class) noexcept;
[[nodiscard]] constexpr bool uses_pool(IndexClass index_class) noexcept {
  return index_class == IndexClass::persistent || index_class == IndexClass::volatile_pm;
}

struct IndexPlace;

/// What creating or recovering an index gives.
template <class Keys>
using MadeIndex = Result<std::unique_ptr<OrderedIndex<Keys>>>;

/// How the operations on a structure keep out of each other's way, as `--lock` on the command line.
enum class LockKind : std::uint8_t {
  none,            ///< not at all: for one thread
  readers_writer,  ///< one reader-writer lock in DRAM
  pthread,         ///< one pthread mutex in DRAM, for readers too
  pthread_pm,      ///< the same in PM, beside the records
  pmemobj,         ///< one mutex of libpmemobj in PM, for readers too
  buckets,         ///< reader-writer locks in DRAM for groups of keys
};
/// "none", "rw", "pthread", "pthread-pm", "pmemobj", "buckets".
[[nodiscard]] const char* name_of(LockKind kind) noexcept;

/// What a power cut in the middle of an operation may leave of it, by design.
enum class Tearing : std::uint8_t {
  nothing,    ///< an operation is whole or absent
  values,     ///< of a value being replaced, a mixture of the old one and the new one
  structure,  ///< besides, nodes half changed: recovery, or the checks after it, may find damage
};
[[nodiscard]] const char* name_of(Tearing tearing) noexcept;

/// Whether an operation may have to wait for another thread.
enum class Progress : std::uint8_t {
  lock_free,  ///< never: others finish although a thread has stopped at any of its steps
  blocking,   ///< for one that holds a lock, or has taken a number and not used it yet
};
/// "lock-free", "blocking".
[[nodiscard]] const char* name_of(Progress progress) noexcept;

/// One of the ways a structure can keep its nodes, as `--mode` on the command line.
struct IndexMode {
  std::string name;  ///< "pmem-trans"
  IndexClass index_class = IndexClass::persistent;
  Tearing tearing = Tearing::nothing;
  std::vector<HeapKind> heaps{};  ///< the pools it works on; empty: all, or none needed
  std::vector<LockKind> locks{};  ///< as of IndexInfo
  MadeIndex<SlotKeys> (*create_slots)(const IndexPlace&) = nullptr;
  MadeIndex<SlotKeys> (*recover_slots)(const IndexPlace&) = nullptr;
};

/// What an index is created or recovered with.
struct IndexPlace {
  Pool* pool = nullptr;              ///< persistent only
  std::string root_name = "index";   ///< persistent only: its root in the pool
  std::string path{};                ///< on_disk: a directory of its own, which it creates
  std::uint64_t capacity_bytes = 0;  ///< on_disk: room it may use
  IndexOptions options{};
  unsigned threads = 1;                      ///< threads recovery and bulk load may use
  bool huge_pages = true;                    ///< for DRAM parts
  LockKind lock = LockKind::readers_writer;  ///< one of the index's `locks`, if it has any
};

struct IndexInfo {
  std::string name;    ///< "fptree"
  std::string mode{};  ///< "pmem-trans" for a structure, filled in by the registry
  std::string title;   ///< "FPTree (Oukid et al., SIGMOD 2016)"
  IndexClass index_class = IndexClass::persistent;
  bool ordered = true;      ///< scans work
  bool replaces = true;     ///< offers upsert and update
  bool is_linear = false;   ///< a search takes a step a record: for small sets
  bool needs_eadr = false;  ///< flushes nothing, so it cannot be durable under adr
  Progress progress = Progress::blocking;
  bool verifiable = true;    ///< keeps what it is given; false only for `null`
  bool native_only = false;  ///< lives in a foreign library, which a simulation cannot see into
  std::vector<IndexOption> options{};
  /// What can lie in parts of a pool of their own, in that order: "record-store", "index".
  std::vector<std::string> parts{};

  /// Makes an empty index. Null where the kind of key is not offered.
  MadeIndex<IntegerKeys> (*create_integer)(const IndexPlace&) = nullptr;
  MadeIndex<ByteKeys> (*create_bytes)(const IndexPlace&) = nullptr;
  MadeIndex<SlotKeys> (*create_slots)(const IndexPlace&) = nullptr;
  /// Recovers from what `place` holds, clean or crashed. Null for in_memory and harness.
  /// Errors: not_found (no such root), foreign (another index, kind of key or options), corrupt,
  /// newer, out_of_space.
  MadeIndex<IntegerKeys> (*recover_integer)(const IndexPlace&) = nullptr;
  MadeIndex<ByteKeys> (*recover_bytes)(const IndexPlace&) = nullptr;
  MadeIndex<SlotKeys> (*recover_slots)(const IndexPlace&) = nullptr;

  /// Describes what lies on media with these options, for counterexamples. Null: shown as bytes.
  std::vector<MediaStruct> (*media)(const IndexOptions&) = nullptr;

  /// A structure: its modes, the one it has by default last. Registered once, it is listed once for
  /// each mode, with what the mode says in place of the fields above and below.
  std::vector<IndexMode> modes{};
  Tearing tearing = Tearing::nothing;
  std::vector<HeapKind> heaps{};  ///< empty: all that keep what the class says
  /// The locks that it can be told to use, the first where one mutex is wanted. Empty: it locks in
  /// its own way, whatever `IndexPlace::lock` says.
  std::vector<LockKind> locks{};

  /// "fptree", "hashtable:pmem-trans": what `IndexRegistry::find` takes.
  [[nodiscard]] std::string full_name() const { return mode.empty() ? name : name + ":" + mode; }
  [[nodiscard]] bool offers(KeyKind kind) const noexcept;
  /// For an index that lives in a pool.
  [[nodiscard]] bool works_on(HeapKind heap) const noexcept;
  [[nodiscard]] bool recovers(KeyKind kind) const noexcept;
};

class IndexRegistry {
 public:
  /// All registered indexes, by name; structures once for each mode.
  [[nodiscard]] static std::span<const IndexInfo> all();
  /// `name` may end in ":mode"; a structure without one is found in its default mode.
  /// Errors: usage, with the nearest name as the remedy ("did you mean").
  [[nodiscard]] static Result<const IndexInfo*> find(std::string_view name);
  /// Checks `name=value` pairs against what the index declares. Errors: usage.
  [[nodiscard]] static Result<IndexOptions> options(const IndexInfo& info,
                                                    std::span<const std::string> pairs);
  static bool add(IndexInfo info);
};

/// Create or recover for either interface, from code that is a template over the kind of key.
/// Options that `place` does not name get their defaults. Errors, besides those of the index: usage
/// (an option, a lock or a pool that it cannot have; create: roots of the pool are not recovered
/// yet), unsupported (this kind of key, or the pool's heap).
template <class Keys>
[[nodiscard]] MadeIndex<Keys> create_index(const IndexInfo& info, const IndexPlace& place);
template <class Keys>
[[nodiscard]] MadeIndex<Keys> recover_index(const IndexInfo& info, const IndexPlace& place);

/// Before a pool is closed: lets the index end what it has begun, and tells the pool what it holds,
/// so that the next opening notices damage (Pool::note_settled). No operation may follow.
template <class Keys>
void settle_index(OrderedIndex<Keys>& index, Pool* pool, std::string_view root_name) {
  index.quiesce();
  if (pool != nullptr) pool->note_settled(root_name, index.size());
}

}  // namespace perdure

/// Registers an index at start-up: PERDURE_REGISTER_INDEX(fptree, IndexInfo{...});
#define PERDURE_REGISTER_INDEX(identifier, ...) \
  static const bool identifier##_is_registered = ::perdure::IndexRegistry::add(__VA_ARGS__)

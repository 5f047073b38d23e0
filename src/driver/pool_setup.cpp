#include "driver/pool_setup.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include "driver/interrupt.h"
#include "driver/numa.h"
#include "index/reference/engine_directory.h"
#include "pool/leftovers.h"
#include "workload/keys.h"

namespace perdure::driver {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t mebibyte = 1ULL << 20;

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t step) noexcept {
  return (bytes + step - 1) / step * step;
}

fs::path parent_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_tmpfs(const fs::path& folder) {
  struct statfs system {};
  return statfs(folder.c_str(), &system) == 0 && system.f_type == TMPFS_MAGIC;
}

// Keys a run may add; an upper bound where the number cannot be known before.
std::uint64_t expected_inserts(const BenchConfig& config) noexcept {
  constexpr double fastest_ops_s_per_thread = 2e6;
  const double share = config.workload.mix.share(workload::Operation::insert);
  const double fastest = config.open_loop()
                             ? config.rate_ops_s
                             : fastest_ops_s_per_thread * static_cast<double>(config.threads);
  double operations = config.warmup_seconds * fastest;
  if (config.workload.operations != 0)
    operations += static_cast<double>(config.workload.operations) * config.repetitions;
  else
    operations += config.workload.seconds * config.repetitions * fastest;
  return static_cast<std::uint64_t>(operations * share);
}

std::uint64_t bytes_per_record(const BenchConfig& config) {
  // A 16-byte record in leaves split in half takes about 40 bytes with its share of the header.
  if (config.key_kind() == KeyKind::integer) return 64;
  // Nodes of 128-byte slots half full, and the widest pointers.
  if (config.key_kind() == KeyKind::slots) return 512;
  const workload::Keys& keys = config.workload.keys;
  std::uint64_t key = 24 + keys.prefix.size();
  if (keys.form == workload::Keys::Form::random) key = keys.max_bytes;
  if (keys.form == workload::Keys::Form::file) key = 64;
  if (workload::is_key_set(keys.form)) key = workload::KeySpace(config.workload).longest();
  // A block of a size class per key and value, twice for updates under way, and the leaf.
  return 128 + 2 * (key + config.workload.value_bytes);
}

/// The value of an option, if the index or queue has it.
std::optional<std::uint64_t> chosen(const IndexOptions& options, std::string_view name) {
  for (const IndexOptions::Choice& choice : options.choices())
    if (choice.name == name) return choice.value;
  return {};
}

// A queue's slots; where only the pool limits it, as many payloads as producers may be ahead.
std::uint64_t queue_bytes(const BenchConfig& config) noexcept {
  constexpr std::uint64_t most_ahead = 1ULL << 20;
  constexpr std::uint64_t block = 256;
  const std::uint64_t pushes =
      config.workload.operations != 0 ? config.workload.operations : most_ahead;
  const std::uint64_t payloads =
      chosen(config.options, "slots")
          .value_or(config.queue->prefill + std::min(pushes, most_ahead));
  const std::uint64_t bytes = std::max<std::uint64_t>(
      config.queue->payload_bytes, chosen(config.options, payload_bytes_option).value_or(0));
  return payloads * (block + 2 * round_up(bytes, block));
}

// True when no file of the run's pool has a name.
bool in_memory(const BenchConfig& config) noexcept {
  return config.scratch_pool || (config.uses_pool() && config.heap == HeapKind::dram);
}

Error does_not_fit(const BenchConfig& config, std::uint64_t wanted, const Room& room) {
  const bool named = config.uses_path() && !config.scratch_pool;
  const char* const remedy = config.replay ? "give a smaller --pool-bytes, or another --pool"
                             : config.queue
                                 ? "give fewer slots (--option), a smaller --pool-bytes, "
                                   "or another --pool"
                             : named ? "give fewer --records, a smaller --pool-bytes, or "
                                       "another --pool"
                             : config.uses_pool() ? "give fewer --records or a smaller --pool-bytes"
                                                  : "give fewer --records";
  return {ErrorCode::out_of_space,
          "the run may need " + std::to_string(wanted / mebibyte) + " MiB, and " +
              std::to_string(room.bytes / mebibyte) + " MiB are free within " + room.bound,
          config.pool_path.empty() ? config.index.name : config.pool_path, remedy};
}

// Later runs cannot recognise what a wrapper makes at its path, so only our own files are replaced.
Result<void> make_room_for_plugin(const std::string& path, bool overwrite) {
  const Result<Occupant> there = occupant_of(path);
  if (!there) return there.error();
  if (*there == Occupant::nothing) return {};
  const bool ours = *there == Occupant::pool || *there == Occupant::empty_file;
  if (ours && overwrite) return EngineDirectory::make_room(path, true);
  return Error{ErrorCode::exists, "exists already, and wrappers create their pool themselves", path,
               ours ? "replace it with --force, or name another path"
                    : "remove it yourself, or name another path"};
}

// Only judges; removes nothing but what killed runs have left.
Result<void> check_paths(const BenchConfig& config, const std::vector<std::string>& paths) {
  if (config.reuse) {
    const Result<Occupant> there = occupant_of(paths.front());
    if (!there) return there.error();
    if (*there == Occupant::broken_link)
      return Error{ErrorCode::not_found, "is a link to something that does not exist",
                   paths.front(), "put back what it leads to, or name another path"};
    if (*there == Occupant::nothing)
      return Error{ErrorCode::not_found, "does not exist, so it cannot be reused", paths.front(),
                   "leave --reuse out to create it"};
    return {};
  }
  if (!config.plugin.empty()) return make_room_for_plugin(paths.front(), false);
  if (!config.uses_pool()) return EngineDirectory::make_room(paths.front(), false);
  remove_leftovers(config.pool_path);
  for (unsigned n = 0; n < paths.size(); ++n)
    if (auto vacant = check_vacancy(paths[n], n, config.force); !vacant) return vacant;
  return {};
}

}  // namespace

std::vector<unsigned> pool_nodes(const BenchConfig& config) {
  std::vector<unsigned> nodes;
  if (config.placement) return config.placement->nodes;
  if (config.options.node_pools() == 0) return nodes;
  if (config.simulated) {
    const platform::Platform& platform = config.simulated->platform;
    const unsigned sockets =
        platform.pm.present ? platform.pm.sockets_with_dimms : platform.cpu.sockets;
    for (unsigned node = 0; node < sockets; ++node) nodes.push_back(node);
  } else {
    for (const NumaNode& node : numa_nodes()) nodes.push_back(node.number);
  }
  return nodes;
}

std::uint64_t estimated_pool_bytes(const BenchConfig& config) noexcept {
  constexpr std::uint64_t base = 64 * mebibyte;
  if (config.queue) return round_up(base + queue_bytes(config), 2 * mebibyte);
  const std::uint64_t records = expected_records(config) * config.instances();
  return round_up(base + records * bytes_per_record(config), 2 * mebibyte);
}

std::uint64_t expected_records(const BenchConfig& config) noexcept {
  if (config.workload.key_range != 0) return config.workload.key_range;
  return config.workload.records + expected_inserts(config) / config.instances();
}

Room room_for(const std::string& path) {
  const Result<Occupant> there = occupant_of(path);
  if (there && *there == Occupant::pm_device) return {};  // creation knows its size
  Room room = room_in(parent_of(path).string());
  struct stat existing {};
  if (room.bytes != Room::unknown && stat(path.c_str(), &existing) == 0 &&
      S_ISREG(existing.st_mode))
    room.bytes += static_cast<std::uint64_t>(existing.st_blocks) * 512;  // --force gives it back
  return room;
}

Room room_of(const BenchConfig& config) {
  if (in_memory(config)) return memory_room();
  // Parts on several mounts: creation looks at each.
  if (config.pool_bytes != 0 && config.pool_path.find("{part}") != std::string::npos) return {};
  return room_for(Pool::part_path(config.pool_path, 0));
}

Result<std::uint64_t> choose_pool_bytes(const BenchConfig& config, const Room& room) {
  const unsigned parts = config.pool_parts(pool_nodes(config).size());
  // Parts that are placed are of one size, and one of them has nearly everything.
  const std::uint64_t estimated = estimated_pool_bytes(config) * (config.placement ? parts : 1);
  const std::uint64_t wanted = config.pool_bytes != 0
                                   ? config.pool_bytes
                                   : std::max(estimated, parts * Pool::min_pool_bytes);
  if (room.bytes == Room::unknown) return wanted;
  const std::uint64_t usable = room.bytes / 10 * 9 / (2 * mebibyte) * (2 * mebibyte);
  if (wanted <= (config.pool_bytes != 0 ? room.bytes : usable)) return wanted;
  // Half of the generous estimate still holds the records; less would fail in the middle. What a
  // simulation measures must not depend on this machine's memory.
  if (config.pool_bytes == 0 && !config.simulated && usable >= wanted / 2) return usable;
  return does_not_fit(config, wanted, room);
}

// A lean estimate: a run that is refused here would have run out of space.
Result<void> check_memory(const BenchConfig& config, const Room& memory) {
  if (config.reuse || config.index.index_class != IndexClass::in_memory || config.uses_pool())
    return {};
  const std::uint64_t records = config.workload.records * config.instances();
  const std::uint64_t wanted = config.queue ? config.queue->prefill * config.queue->payload_bytes
                                            : records * bytes_per_record(config) / 2;
  if (wanted <= memory.bytes) return {};
  return does_not_fit(config, wanted, memory);
}

Result<std::unique_ptr<PoolSite>> PoolSite::prepare(const BenchConfig& config) {
  std::unique_ptr<PoolSite> site(new PoolSite);
  if (!config.uses_pool() && !config.uses_path()) return site;
  if (!config.plugin.empty() && is_folder(config.pool_path)) return use_folder(config);
  const bool has_path = config.uses_path() && !config.scratch_pool;
  site->directory_ = has_path && !config.uses_pool();
  const std::vector<unsigned> nodes = pool_nodes(config);
  const unsigned parts = config.uses_pool() ? config.pool_parts(nodes.size()) : 1;
  std::vector<std::string>& paths = site->paths_;
  if (site->directory_) paths.push_back(config.pool_path);
  for (unsigned n = 0; has_path && !site->directory_ && n < parts; ++n)
    paths.push_back(Pool::part_path(config.pool_path, n));
  const bool creates_directory = site->directory_ && !config.reuse;
  // With --force a directory's room is made below, once nothing else can be wrong.
  if (has_path && !(creates_directory && config.force))
    if (auto checked = check_paths(config, paths); !checked) return checked.error();
  if (!config.reuse) {
    // A simulation has checked this before it started: what it allocates must not depend on this
    // machine.
    const auto bytes = choose_pool_bytes(config, config.simulated ? Room() : room_of(config));
    if (!bytes) return bytes.error();
    site->bytes_ = *bytes;
  }
  if (creates_directory && config.force) {
    auto room = config.plugin.empty() ? EngineDirectory::make_room(paths.front(), true)
                                      : make_room_for_plugin(paths.front(), true);
    if (!room) return room.error();
  }
  if (!config.uses_pool()) {
    std::error_code ignored;
    site->created_ = !config.reuse;
    site->was_there_ = fs::exists(fs::symlink_status(paths.front(), ignored));
    site->foreign_ = !config.plugin.empty();
    return site;
  }

  PoolOptions options;
  options.path = config.scratch_pool ? std::string(memory_path) : has_path ? config.pool_path : "";
  options.heap = config.heap;
  options.bytes = site->bytes_;
  // Simulated time does not see this machine's pages: a scratch pool gets them when used.
  options.huge_pages = config.huge_pages && !config.scratch_pool;
  options.prefault = !config.scratch_pool;
  options.overwrite = config.force;
  options.parts = parts;
  options.nodes = nodes;
  if (config.placement) options.parts_in_dram = config.placement->in_dram;
  auto pool = config.reuse ? Pool::open(options) : Pool::create(options);
  if (!pool) return pool.error();
  site->pool_ = std::move(pool).value();
  site->bytes_ = site->pool_->bytes();
  // A memkind pool's file has no name, so what stands at the path is not ours.
  if (has_path && !config.reuse && config.heap != HeapKind::memkind)
    for (const std::string& path : paths)
      if (auto made = MadeFile::at(path)) site->made_.push_back(std::move(*made));
  site->created_ = !site->made_.empty();
  if (config.reuse) leave_pool_when_ended();
  remove_when_ended(site->made_);
  return site;
}

// A wrapper's files in a directory that the user made for it: neither it nor they are ours to
// remove. Whether it is empty, load_plugin asks.
Result<std::unique_ptr<PoolSite>> PoolSite::use_folder(const BenchConfig& config) {
  const auto bytes = choose_pool_bytes(config, room_of(config));
  if (!bytes) return bytes.error();
  auto site = std::unique_ptr<PoolSite>(new PoolSite);
  site->bytes_ = *bytes;
  site->directory_ = true;
  site->paths_.push_back(config.pool_path);
  return site;
}

void PoolSite::keep() noexcept {
  kept_ = true;
  remove_when_ended({});
  if (!paths_.empty() && !foreign_) leave_pool_when_ended();
}

// The files go while the pool still holds its lock: afterwards another run may have replaced them.
PoolSite::~PoolSite() {
  remove_when_ended({});
  if (created_ && !kept_) take_back();
}

void PoolSite::take_back() const {
  for (const MadeFile& file : made_) file.remove();
  if (!directory_) return;
  if (!foreign_) {
    EngineDirectory::take_back(paths_.front(), !was_there_);
  } else if (!was_there_) {
    // A wrapper's file; a directory of a wrapper's may hold anything, and stays.
    if (const auto file = MadeFile::at(paths_.front())) file->remove();
  }
}

std::string PoolSite::medium() const {
  if (pool_) return name_of(pool_->medium());
  if (!directory_) return "none";
  return is_tmpfs(parent_of(paths_.front())) ? "tmpfs" : "disk";
}

std::uint64_t PoolSite::directory_bytes() const {
  std::uint64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(paths_.front(), ignored)) {
    struct stat file {};
    if (entry.is_regular_file(ignored) && stat(entry.path().c_str(), &file) == 0)
      bytes += static_cast<std::uint64_t>(file.st_blocks) * 512;
  }
  return bytes;
}

Result<void> PoolSite::close() {
  if (!pool_) return {};
  auto closed = pool_->close();
  pool_.reset();
  return closed;
}

}  // namespace perdure::driver

#include "driver/pool_setup.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "driver/interrupt.h"
#include "driver/numa.h"

namespace perdure::driver {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t mebibyte = 1ULL << 20;
/// Every on-disk index keeps this file in its directory, locked while a process uses it.
constexpr const char* directory_lock = "perdure.lock";

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

std::uint64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    std::uint64_t kibibytes = 0;
    file >> kibibytes;
    if (name == "MemAvailable:") return kibibytes << 10;
    file.ignore(64, '\n');
  }
  return 0;
}

// Keys a run may add: an upper bound for what cannot be known before.
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

std::uint64_t bytes_per_record(const BenchConfig& config) noexcept {
  // A 16-byte record in leaves split in half takes about 40 bytes with its share of the header.
  if (config.key_kind() == KeyKind::integer) return 64;
  // Nodes of 128-byte slots half full, and the widest pointers.
  if (config.key_kind() == KeyKind::slots) return 512;
  const workload::Keys& keys = config.workload.keys;
  std::uint64_t key = 24 + keys.prefix.size();
  if (keys.form == workload::Keys::Form::random) key = keys.max_bytes;
  // A block of a size class per key and value, twice for updates under way, and the leaf.
  if (keys.form == workload::Keys::Form::file) key = 64;
  return 128 + 2 * (key + config.workload.value_bytes);
}

Error exists(const std::string& path) {
  return {ErrorCode::exists, "exists already", path,
          "open it with --reuse, replace it with --force, or name another"};
}

// A directory that an earlier run made and nobody uses may go; any other is the user's.
Result<void> clear_for_creation(const std::string& path) {
  std::error_code failure;
  if (fs::is_directory(path, failure) && !fs::is_empty(path, failure)) {
    const std::string lock = (fs::path(path) / directory_lock).string();
    const int file = ::open(lock.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0)
      return Error{ErrorCode::exists, "is a directory that perdure did not make", path,
                   "remove it yourself or name another"};
    const bool idle = ::flock(file, LOCK_EX | LOCK_NB) == 0;
    ::close(file);
    if (!idle)
      return Error{ErrorCode::busy, "another process uses this index", path,
                   "wait for it to end, or name another path"};
  }
  fs::remove_all(path, failure);
  if (failure) return Error{ErrorCode::io, "cannot be removed: " + failure.message(), path, ""};
  return {};
}

}  // namespace

std::vector<unsigned> pool_nodes(const BenchConfig& config) {
  std::vector<unsigned> nodes;
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
  const std::uint64_t records = expected_records(config) * config.instances();
  return round_up(base + records * bytes_per_record(config), 2 * mebibyte);
}

std::uint64_t expected_records(const BenchConfig& config) noexcept {
  return config.workload.records + expected_inserts(config) / config.instances();
}

std::uint64_t free_bytes_for(const std::string& path) {
  if (path.empty()) return available_memory_bytes();
  const fs::path folder = parent_of(path);
  struct statvfs system {};
  if (statvfs(folder.c_str(), &system) != 0) return 0;
  std::uint64_t free = static_cast<std::uint64_t>(system.f_bavail) * system.f_frsize;
  if (is_tmpfs(folder)) free = std::min(free, available_memory_bytes());
  struct stat existing {};
  if (stat(path.c_str(), &existing) == 0 && S_ISREG(existing.st_mode))
    free += static_cast<std::uint64_t>(existing.st_blocks) * 512;  // --force gives it back
  return free;
}

Result<std::uint64_t> choose_pool_bytes(const BenchConfig& config) {
  if (config.pool_bytes != 0) return config.pool_bytes;
  const unsigned parts = config.options.pool_parts(pool_nodes(config).size());
  const std::uint64_t wanted = std::max(estimated_pool_bytes(config), parts * Pool::min_pool_bytes);
  if (config.simulated) return wanted;  // whatever is free here: creation says when it is too much
  const bool dram = config.uses_pool() && config.heap == HeapKind::dram;
  const std::uint64_t free = free_bytes_for(dram ? "" : Pool::part_path(config.pool_path, 0));
  if (free == 0) return wanted;
  const std::uint64_t usable = free / 10 * 9 / (2 * mebibyte) * (2 * mebibyte);
  if (wanted <= usable) return wanted;
  // Half of the generous estimate still holds the records; less would fail in the middle.
  if (usable >= wanted / 2) return usable;
  return Error{ErrorCode::out_of_space,
               "the run may need " + std::to_string(wanted / mebibyte) + " MiB, and " +
                   std::to_string(free / mebibyte) + " MiB are free",
               dram ? "--heap dram" : config.pool_path,
               "free some, take fewer --records, or set --pool-bytes"};
}

Result<std::unique_ptr<PoolSite>> PoolSite::prepare(const BenchConfig& config) {
  std::unique_ptr<PoolSite> site(new PoolSite);
  if (!config.uses_pool() && !config.uses_path()) return site;
  if (!config.plugin.empty() && is_folder(config.pool_path)) return use_folder(config);
  const bool has_path = config.uses_path();
  site->directory_ = has_path && !config.uses_pool();
  const std::vector<unsigned> nodes = pool_nodes(config);
  const unsigned parts = config.uses_pool() ? config.options.pool_parts(nodes.size()) : 1;
  std::vector<std::string>& paths = site->paths_;
  if (site->directory_) paths.push_back(config.pool_path);
  for (unsigned n = 0; has_path && !site->directory_ && n < parts; ++n)
    paths.push_back(Pool::part_path(config.pool_path, n));
  std::error_code ignored;
  const auto is_present = [&](const std::string& path) { return fs::exists(path, ignored); };
  const bool present = has_path && is_present(paths.front());
  const bool device = present && fs::is_character_file(paths.front(), ignored);
  if (config.reuse) {
    if (!present)
      return Error{ErrorCode::not_found, "does not exist, so it cannot be reused", paths.front(),
                   "leave --reuse out to create it"};
  } else {
    const auto other = std::ranges::find_if(paths, is_present);
    if (other != paths.end() && !config.force) return exists(*other);
    const auto bytes = choose_pool_bytes(config);
    if (!bytes) return bytes.error();
    site->bytes_ = *bytes;
  }

  if (!config.uses_pool()) {
    if (present && !config.reuse) {
      const auto cleared = clear_for_creation(paths.front());
      if (!cleared) return cleared.error();
    }
    site->created_ = !config.reuse;
    return site;
  }

  PoolOptions options;
  options.path = has_path ? config.pool_path : "";
  options.heap = config.heap;
  options.bytes = site->bytes_;
  // Simulated time does not see this machine's pages: a scratch pool gets them as it is used.
  options.huge_pages = config.huge_pages && !config.scratch_pool;
  options.prefault = !config.scratch_pool;
  options.overwrite = config.force;
  options.parts = parts;
  options.nodes = nodes;
  auto pool = config.reuse ? Pool::open(options) : Pool::create(options);
  if (!pool) return pool.error();
  site->pool_ = std::move(pool).value();
  site->bytes_ = site->pool_->bytes();
  site->created_ = has_path && !config.reuse && !device;
  if (site->created_) remove_when_ended(paths);
  if (config.scratch_pool) {
    // Mapped and open it needs no name, and so goes with the process even when that is killed.
    for (const std::string& path : paths) fs::remove(path, ignored);
    site->keep();
  }
  return site;
}

// A wrapper's files in a directory that the user made for it: neither it nor they are ours to
// remove. Whether it is empty, load_plugin asks.
Result<std::unique_ptr<PoolSite>> PoolSite::use_folder(const BenchConfig& config) {
  const auto bytes = choose_pool_bytes(config);
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
}

PoolSite::~PoolSite() {
  remove_when_ended({});
  pool_.reset();
  if (!created_ || kept_) return;
  std::error_code ignored;
  for (const std::string& path : paths_)
    if (directory_)
      fs::remove_all(path, ignored);
    else
      fs::remove(path, ignored);
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

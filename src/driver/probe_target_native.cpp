// Probing this machine: pinned threads, the time stamp counter, and memory that is mapped, backed
// by huge pages where the system gives them, and touched before anything is timed.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>

#include "core/units.h"
#include "driver/clock.h"
#include "driver/environment.h"
#include "driver/numa.h"
#include "driver/pool_setup.h"
#include "driver/probe_target.h"
#include "driver/topology.h"
#include "driver/worker_team.h"
#include "pm/pm.h"
#include "pool/file.h"
#include "pool/mapping.h"
#include "pool/occupant.h"

namespace perdure::driver {
namespace {

namespace fs = std::filesystem;
using probe::Point;

constexpr const char* no_counters =
    "this machine shows no counters of memory traffic to a program without privileges";
constexpr std::uint64_t huge_page = std::uint64_t{2} << 20;

std::uint64_t clock_now() noexcept { return Clock::get().now(); }

void spend(std::uint64_t ps) noexcept {
  const Clock& clock = Clock::get();
  const Ticks until =
      clock.now() + static_cast<Ticks>(static_cast<double>(ps) * clock.ticks_per_second() * 1e-12);
  while (clock.now() < until) {
  }
}

std::uint64_t cache_size(int name) noexcept {
  const long bytes = sysconf(name);
  return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

/// A region of probed memory, kept from point to point and grown when one needs more.
struct Region {
  Mapping mapping;
  std::uint64_t bytes = 0;
  unsigned node = 0;
};

class NativeRig final : public probe::Rig {
 public:
  explicit NativeRig(const ProbeOptions& options) : options_(options), nodes_(numa_nodes()) {
    // On a machine of one socket, CXL memory is the remote one.
    const std::vector<MemoryNode> far = memory_nodes();
    if (nodes_.size() == 1 && !far.empty()) far_.node = far.front().number;
    has_far_ = nodes_.size() == 1 && !far.empty();
    static_cast<void>(driver::Clock::get());  // calibrates
  }
  ~NativeRig() override {
    if (emptied_at_end_ && ftruncate(file_.get(), 0) != 0) emptied_at_end_ = false;
  }
  NativeRig(const NativeRig&) = delete;
  NativeRig& operator=(const NativeRig&) = delete;

  [[nodiscard]] Result<void> open_pool();
  [[nodiscard]] const std::string& medium() const noexcept { return medium_; }
  [[nodiscard]] unsigned most_threads() const noexcept {
    std::size_t most = 1;
    for (const NumaNode& node : nodes_) most = std::max(most, node.cpus.size());
    return static_cast<unsigned>(most);
  }
  [[nodiscard]] std::uint64_t room() const {
    const std::uint64_t dram = memory_room().bytes;
    if (device_bytes_ != 0) return std::min(dram, device_bytes_);
    return path_.empty() ? dram : std::min(dram, room_for(path_).bytes);
  }

  [[nodiscard]] std::optional<std::string> lacks(const Point& point) const override;
  [[nodiscard]] Result<void> prepare(const Point& point) override;
  [[nodiscard]] std::byte* region() noexcept override { return current_->mapping.base(); }
  void run(const Job& job) override;
  void set_model(Model) noexcept override {}
  [[nodiscard]] std::uint64_t cache_bytes() const noexcept override {
    return cache_size(_SC_LEVEL3_CACHE_SIZE) + threads_ * cache_size(_SC_LEVEL2_CACHE_SIZE);
  }
  [[nodiscard]] Clock clock() const noexcept override { return &clock_now; }
  [[nodiscard]] double ticks_per_ns() const noexcept override {
    return driver::Clock::get().ticks_per_second() * 1e-9;
  }
  [[nodiscard]] Spender spender() const noexcept override { return &spend; }
  [[nodiscard]] std::uint64_t lines_per_point() const noexcept override {
    constexpr double lines_per_second = 5e6;
    return static_cast<std::uint64_t>(seconds_per_point() * lines_per_second);
  }
  [[nodiscard]] double seconds_per_point() const noexcept override {
    if (options_.seconds > 0) return options_.seconds;
    return options_.quick ? 0.01 : 0.05;
  }
  [[nodiscard]] std::uint64_t operations_per_mark() const noexcept override { return 16; }
  [[nodiscard]] std::optional<probe::CounterValues> counters() const override {
    return std::nullopt;
  }
  [[nodiscard]] std::string counters_missing() const override { return no_counters; }

 private:
  [[nodiscard]] Result<void> grow(Region& region, bool pm, std::uint64_t bytes);

  const ProbeOptions& options_;
  std::vector<NumaNode> nodes_;
  std::string path_;
  std::string medium_;
  File file_;
  std::uint64_t device_bytes_ = 0;  ///< of a device; 0: a file, which grows
  std::uint64_t file_bytes_ = 0;
  bool emptied_at_end_ = false;  ///< an empty file says that it may be overwritten again
  Region pm_;
  Region dram_;
  Region far_;  ///< DRAM of a node without CPUs
  bool has_far_ = false;
  Region* current_ = nullptr;
  unsigned threads_ = 1;
  std::vector<unsigned> cpus_;
};

// In a folder the file has no name, so nothing of it is ever left over; memory needs no folder. A
// named file or device is the user's, and is written to only with --force.
Result<void> NativeRig::open_pool() {
  path_ = options_.pool_path;
  std::error_code failure;
  if (path_.empty()) {
    file_ = File(memfd_create("perdure-probe", MFD_CLOEXEC));
  } else if (fs::is_directory(path_, failure)) {
    path_ += "/.";
    file_ = File(::open(path_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  } else if (!fs::exists(path_, failure)) {
    file_ = File(::open(path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
    if (file_) ::unlink(path_.c_str());
  } else {
    if (const auto vacant = check_vacancy(path_, 0, options_.force); !vacant) {
      const bool pool = occupant_of(path_).ok() && *occupant_of(path_) == Occupant::pool;
      if (!pool || options_.force) return vacant;
      return Error{ErrorCode::exists, "exists already, and a probe overwrites it", path_,
                   "name a folder or a new file, or give --force"};
    }
    auto opened = open_file(path_);
    if (!opened) return opened.error();
    file_ = std::move(opened).value();
    if (auto locked = lock_file(file_, path_); !locked) return locked;
    const auto bytes = size_of(file_, path_);
    if (!bytes) return bytes.error();
    (is_device(file_) ? device_bytes_ : file_bytes_) = *bytes;
    if (is_device(file_) && !options_.force)
      return Error{ErrorCode::exists, "is a device, and a probe overwrites it", path_,
                   "name a folder or a new file, or give --force"};
    emptied_at_end_ = !is_device(file_);
  }
  if (!file_)
    return Error{ErrorCode::io, "cannot be opened: " + std::system_category().message(errno), path_,
                 "name a folder, a file or a device that you may write to"};
  medium_ = perdure::name_of(medium_of(file_.get()));
  return {};
}

std::optional<std::string> NativeRig::lacks(const Point& point) const {
  if (point.dimms)
    return "the number of DIMMs that memory is interleaved over cannot be chosen on this machine";
  if (point.prefetch && !*point.prefetch)
    return "switching the prefetchers off needs a privileged register of the processor";
  if (point.node == probe::Node::remote && nodes_.size() < 2 &&
      !(has_far_ && point.memory == probe::Memory::dram))
    return has_far_ ? "this machine has one NUMA node with CPUs: --pool says where PM is"
                    : "this machine has one NUMA node";
  if (point.threads > most_threads())
    return "this machine has " + std::to_string(most_threads()) + " cores on a node";
  if (point.region_bytes > room() / 5 * 4)
    return "the region takes " + format_bytes(point.region_bytes) + ", and " +
           format_bytes(room() / 5 * 4) + " are free for it";
  if (point.flush && !pm::configure(pm::Durability::adr, *point.flush).ok())
    return std::string("this processor has no ") + pm::name_of(*point.flush);
  return std::nullopt;
}

Result<void> NativeRig::grow(Region& region, bool pm, std::uint64_t bytes) {
  if (region.bytes >= bytes) return {};
  bytes = (bytes + huge_page - 1) / huge_page * huge_page;
  const std::optional<unsigned> wanted =
      &region == &far_ ? std::optional(region.node) : std::nullopt;
  region = {};
  const PreferredNode preferred(wanted);
  const NumaNode& home = nodes_.front();
  run_on(home.cpus);  // pages come from the node that touches them first
  if (pm) {
    if (device_bytes_ != 0) {
      bytes = std::min(bytes, device_bytes_);
    } else {
      if (bytes > file_bytes_ && ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0)
        return Error{ErrorCode::out_of_space, "has no room for " + format_bytes(bytes), path_,
                     "give a smaller --region or another --pool"};
      file_bytes_ = std::max(file_bytes_, bytes);
      if (auto allocated = allocate_blocks(file_, bytes, path_); !allocated) return allocated;
    }
    auto mapping = Mapping::of_file(file_.get(), bytes, 0, path_);
    if (!mapping) return mapping.error();
    region.mapping = std::move(mapping).value();
    request_huge_pages(region.mapping.base(), bytes, medium_of(file_.get()));
  } else {
    auto mapping = Mapping::anonymous(bytes, 0);
    if (!mapping) return mapping.error();
    region.mapping = std::move(mapping).value();
    request_huge_pages(region.mapping.base(), bytes, Medium::anonymous);
  }
  prefault(region.mapping.base(), bytes);
  region.bytes = bytes;
  region.node = node_of_page(region.mapping.base()).value_or(wanted.value_or(home.number));
  if (wanted && region.node != *wanted)
    return Error{ErrorCode::unsupported, "the system places no memory there",
                 "node " + std::to_string(*wanted), "give --node local"};
  std::vector<unsigned> all;
  for (const NumaNode& node : nodes_) all.insert(all.end(), node.cpus.begin(), node.cpus.end());
  run_on(all);
  return {};
}

Result<void> NativeRig::prepare(const Point& point) {
  const bool is_pm = point.memory == probe::Memory::pm;
  const bool is_far = has_far_ && !is_pm && point.node == probe::Node::remote;
  current_ = is_pm ? &pm_ : is_far ? &far_ : &dram_;
  if (auto grown = grow(*current_, is_pm, point.region_bytes); !grown) return grown;
  if (auto set = pm::configure(point.durability.value_or(pm::Durability::adr),
                               point.flush.value_or(pm::detect_flush_instruction()));
      !set)
    return set;
  threads_ = point.threads;
  const bool local = point.node == probe::Node::local;
  const auto chosen = std::ranges::find_if(nodes_, [&](const NumaNode& node) {
    return (node.number == current_->node) == local && node.cpus.size() >= point.threads;
  });
  cpus_ = chosen == nodes_.end() ? nodes_.front().cpus : chosen->cpus;
  return {};
}

void NativeRig::run(const Job& job) {
  Meeting start(threads_);
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < threads_; ++t)
    threads.emplace_back([&, t] {
      if (t < cpus_.size()) pin_this_thread(cpus_[t]);
      start.arrive();
      job(t);
    });
}

class NativeTarget final : public ProbeTarget {
 public:
  explicit NativeTarget(const ProbeOptions& options) : options_(options), rig_(options_) {}

  [[nodiscard]] Result<void> open() { return rig_.open_pool(); }

  [[nodiscard]] ProbeDefaults defaults() const override {
    constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;
    return {.region_bytes = (options_.quick ? 64 : 256) * mebibyte,
            .cached_region_bytes = 16 * mebibyte,
            .threads = rig_.most_threads()};
  }

  [[nodiscard]] nlohmann::ordered_json facts() const override {
    return {{"platform", nullptr},
            {"ablate", nlohmann::ordered_json::array()},
            {"environment", record_of(read_environment(), rig_.medium())}};
  }

  [[nodiscard]] Result<std::vector<probe::Outcome>> measure(const std::vector<Point>& points,
                                                            const Progress& progress) override {
    std::vector<probe::Outcome> outcomes;
    for (const Point& point : points) {
      auto outcome = probe::measure(point, rig_, options_.seed);
      if (!outcome) return outcome.error();
      outcomes.push_back(std::move(outcome).value());
      progress(outcomes.size());
    }
    return outcomes;
  }

 private:
  ProbeOptions options_;
  NativeRig rig_;
};

}  // namespace

Result<std::unique_ptr<ProbeTarget>> open_probe_target(const ProbeOptions& options) {
  if (options.target != "native")
    return Error{ErrorCode::unsupported, "this program measures this machine only",
                 "--target " + options.target, "start perdure-sim, or `perdure probe`"};
  pm::configure(pm::Durability::adr);
  pm::configure_simd(pm::detect_simd_level());
  auto target = std::make_unique<NativeTarget>(options);
  if (auto opened = target->open(); !opened) return opened.error();
  return std::unique_ptr<ProbeTarget>(std::move(target));
}

}  // namespace perdure::driver

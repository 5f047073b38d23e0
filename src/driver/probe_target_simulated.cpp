// Probing a simulated platform. Each point runs in a process of its own, because a process has one
// simulation; so every point starts from a fresh machine, and several run at once.
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string_view>
#include <thread>

#include "core/units.h"
#include "driver/probe_target.h"
#include "platform/description/description.h"
#include "platform/description/placement.h"
#include "platform/runtime/simulation.h"
#include "pm/pm.h"
#include "probe/document.h"

namespace perdure::driver {
namespace {

using platform::Simulation;
using probe::Json;
using probe::Outcome;
using probe::Point;

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

// The stopwatch and the spender carry no hooks: they are no part of the measured program.
__attribute__((no_sanitize("thread"))) std::uint64_t clock_now() noexcept {
  return Simulation::current()->now();
}
__attribute__((no_sanitize("thread"))) void spend(std::uint64_t ps) noexcept {
  Simulation::current()->compute(ps);
}

probe::CounterValues values_of(const platform::Counters& all, probe::Memory memory) {
  const platform::MemoryCounters& m = memory == probe::Memory::pm ? all.pm : all.dram;
  return {{"controller_read_bytes", m.controller_read_bytes},
          {"controller_write_bytes", m.controller_write_bytes},
          {"media_read_bytes", m.media_read_bytes},
          {"media_write_bytes", m.media_write_bytes},
          {"buffer_read_hits", m.buffer_read_hits},
          {"buffer_read_misses", m.buffer_read_misses},
          {"buffer_write_hits", m.buffer_write_hits},
          {"buffer_write_misses", m.buffer_write_misses},
          {"read_modify_writes", m.read_modify_writes},
          {"wear_levelling_stalls", m.wear_levelling_stalls},
          {"directory_writes", m.directory_writes},
          {"loads", all.loads},
          {"stores", all.stores},
          {"l1_misses", all.l1_misses},
          {"l2_misses", all.l2_misses},
          {"llc_misses", all.llc_misses},
          {"llc_hits", all.llc_hits},
          {"flushes", all.flushes},
          {"fences", all.fences},
          {"streaming_stores", all.streaming_stores},
          {"upi_bytes", all.upi_bytes}};
}

class SimulatedRig final : public probe::Rig {
 public:
  SimulatedRig(const ProbeOptions& options, const platform::Platform& platform,
               const platform::Ablation& ablation)
      : options_(options), platform_(platform), ablation_(ablation) {}

  [[nodiscard]] std::optional<std::string> lacks(const Point& point) const override;
  [[nodiscard]] Result<void> prepare(const Point& point) override;
  [[nodiscard]] std::byte* region() noexcept override { return base_; }
  void run(const Job& job) override { simulation_->run(job); }
  void set_model(Model model) noexcept override {
    simulation_->set_model(model == Model::off         ? Simulation::Model::off
                           : model == Model::tags_only ? Simulation::Model::tags_only
                                                       : Simulation::Model::on);
  }
  [[nodiscard]] std::uint64_t cache_bytes() const noexcept override {
    return platform_.cpu.llc_per_core.bytes * platform_.cpu.cores_per_socket +
           threads_ * platform_.cpu.l2.bytes;
  }
  [[nodiscard]] Clock clock() const noexcept override { return &clock_now; }
  [[nodiscard]] double ticks_per_ns() const noexcept override {
    return static_cast<double>(platform::ns);
  }
  [[nodiscard]] Spender spender() const noexcept override { return &spend; }
  [[nodiscard]] std::uint64_t lines_per_point() const noexcept override {
    return options_.quick ? 10'000 : 100'000;
  }
  [[nodiscard]] double seconds_per_point() const noexcept override { return 0; }
  [[nodiscard]] std::uint64_t operations_per_mark() const noexcept override { return 1; }
  [[nodiscard]] std::optional<probe::CounterValues> counters() const override {
    return values_of(simulation_->counters(), memory_);
  }
  [[nodiscard]] std::string counters_missing() const override { return ""; }

  /// Conservation laws, and with --guard the completeness of the hooks.
  [[nodiscard]] Result<void> check() const { return simulation_->check(); }

 private:
  const ProbeOptions& options_;
  /// Where caches are durable a program flushes nothing.
  [[nodiscard]] pm::Durability own_durability() const noexcept {
    return platform_.domain == platform::PersistenceDomain::eadr ? pm::Durability::eadr
                                                                 : pm::Durability::adr;
  }

  platform::Platform platform_;
  platform::Ablation ablation_;
  Simulation* simulation_ = nullptr;
  probe::Memory memory_ = probe::Memory::pm;
  std::byte* base_ = nullptr;
  unsigned threads_ = 1;
};

std::optional<std::string> SimulatedRig::lacks(const Point& point) const {
  if (point.memory == probe::Memory::pm && !platform_.pm.present)
    return "the platform " + platform_.name + " has no persistent memory";
  if (point.node == probe::Node::remote && platform_.cpu.sockets < 2)
    return "the platform " + platform_.name + " has one node";
  const unsigned cpus = platform_.cpu.cores_per_socket * platform_.cpu.threads_per_core;
  if (point.threads > cpus)
    return "the platform " + platform_.name + " has " + std::to_string(cpus) + " CPUs on a node";
  return std::nullopt;
}

// The memory lies on node 0; local threads run there, remote ones on node 1.
Result<void> SimulatedRig::prepare(const Point& point) {
  platform::SimulationOptions options;
  options.platform = platform_;
  if (point.dimms)
    (point.memory == probe::Memory::pm ? options.platform.pm.dimms
                                       : options.platform.dram.channels) = *point.dimms;
  options.ablation = ablation_;
  if (point.prefetch) {
    options.platform.cpu.streamer = *point.prefetch;
    options.platform.cpu.adjacent_line = *point.prefetch;
  }
  options.threads = point.threads;
  options.guard = options_.guard;
  const unsigned cores = platform_.cpu.cores_per_socket;
  const unsigned first = point.node == probe::Node::remote ? cores : 0;
  for (unsigned t = 0; t < point.threads; ++t)
    options.cpus.push_back(first + t % cores + t / cores * cores * platform_.cpu.sockets);
  auto started = Simulation::start(std::move(options));
  if (!started) return started.error();
  simulation_ = *started;
  threads_ = point.threads;
  memory_ = point.memory;
  if (auto set = pm::configure(point.durability.value_or(own_durability()),
                               point.flush.value_or(pm::detect_flush_instruction()));
      !set)
    return set;
  pm::configure_simd(pm::detect_simd_level());
  // Untouched pages cost nothing, so the region may be larger than this machine's memory.
  const std::uint64_t bytes = (point.region_bytes + mebibyte - 1) / mebibyte * mebibyte;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return Error{ErrorCode::out_of_space, "cannot map " + format_bytes(bytes), "--region",
                 "give a smaller one"};
  base_ = static_cast<std::byte*>(memory);
  simulation_->add_region(
      base_, bytes,
      memory_ == probe::Memory::pm ? platform::MemoryKind::pm : platform::MemoryKind::dram, 0);
  return {};
}

/// A point that is being measured by a child process.
struct Child {
  pid_t process = -1;
  int pipe = -1;
  std::size_t point = 0;
  std::string text;
};

class SimulatedTarget final : public ProbeTarget {
 public:
  SimulatedTarget(const ProbeOptions& options, platform::PlatformDescription description,
                  const platform::Ablation& ablation)
      : options_(options), description_(std::move(description)), ablation_(ablation) {}

  [[nodiscard]] ProbeDefaults defaults() const override {
    return {.region_bytes = 1024 * mebibyte,
            .cached_region_bytes = (options_.quick ? 4 : 16) * mebibyte,
            .threads = description_.platform.cpu.cores_per_socket *
                       description_.platform.cpu.threads_per_core,
            .prefetch_switch = true};
  }

  [[nodiscard]] Json facts() const override {
    const platform::Platform& p = description_.platform;
    return {{"platform", {{"name", p.name}, {"fingerprint", platform::fingerprint_of(p)}}},
            {"ablate", options_.ablate},
            {"environment", nullptr}};
  }

  [[nodiscard]] Result<std::vector<Outcome>> measure(const std::vector<Point>& points,
                                                     const Progress& progress) override;

 private:
  [[nodiscard]] Result<Child> start(const Point& point, std::size_t number);
  [[noreturn]] void serve(const Point& point, int pipe) const;
  [[nodiscard]] static Result<Outcome> finish(Child& child, const Point& point);

  ProbeOptions options_;
  platform::PlatformDescription description_;
  platform::Ablation ablation_;
};

int answer_pipe = -1;  ///< of the child

// The parent says it, once for all children.
[[noreturn]] void answer_with_exception() noexcept {
  std::string_view answer = "{\"error\": \"an exception that nothing caught\"}";
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    answer = "{\"error\": \"the system gives no more memory; raise the limit (ulimit -v)\"}";
  } catch (...) {
  }
  ::_exit(::write(answer_pipe, answer.data(), answer.size()) < 0 ? 1 : 0);
}

// In the child: measures, writes one line of JSON and leaves without running destructors.
void SimulatedTarget::serve(const Point& point, int pipe) const {
  answer_pipe = pipe;
  std::set_terminate(answer_with_exception);
  SimulatedRig rig(options_, description_.platform, ablation_);
  auto outcome = probe::measure(point, rig, options_.seed);
  Json answer;
  if (!outcome) {
    answer["error"] = outcome.error().line();
  } else if (const auto checked = outcome->skipped ? Result<void>{} : rig.check(); !checked) {
    answer["error"] = checked.error().line();
  } else {
    answer["outcome"] = probe::json_of(*outcome);
  }
  const std::string text = answer.dump();
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(pipe, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) ::_exit(1);
    done += static_cast<std::size_t>(wrote);
  }
  ::_exit(0);
}

Result<Child> SimulatedTarget::start(const Point& point, std::size_t number) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0)
    return Error{ErrorCode::io, std::string("cannot make a pipe: ") + std::strerror(errno), "probe",
                 "close other programs"};
  const pid_t process = ::fork();
  if (process < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return Error{ErrorCode::io, std::string("cannot start a process: ") + std::strerror(errno),
                 "probe", "give fewer --jobs"};
  }
  if (process == 0) {
    // A signal to the parent alone ends this one, too, however long its point would take.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    serve(point, ends[1]);
  }
  ::close(ends[1]);
  return Child{process, ends[0], number, ""};
}

Result<Outcome> SimulatedTarget::finish(Child& child, const Point& point) {
  ::close(child.pipe);
  int status = 0;
  while (::waitpid(child.process, &status, 0) < 0 && errno == EINTR) {
  }
  const std::string where = point.experiment + " " + probe::json_of(point).dump();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return Error{ErrorCode::failed,
                 WIFSIGNALED(status)
                     ? "the simulation ended by signal " + std::to_string(WTERMSIG(status))
                     : "the simulation ended without an answer",
                 where, ""};
  const Json answer = Json::parse(child.text, nullptr, false);
  if (answer.is_discarded() || !answer.is_object())
    return Error{ErrorCode::failed, "the simulation gave no answer", where, ""};
  if (answer.contains("error"))
    return Error{ErrorCode::failed, answer["error"].get<std::string>(), where, ""};
  return probe::outcome_of(answer["outcome"]);
}

Result<std::vector<Outcome>> SimulatedTarget::measure(const std::vector<Point>& points,
                                                      const Progress& progress) {
  const unsigned cores = std::max(std::thread::hardware_concurrency(), 1U);
  const std::size_t jobs = options_.jobs != 0 ? options_.jobs : cores;
  std::vector<Outcome> outcomes(points.size());
  std::vector<Child> running;
  std::optional<Error> failure;
  std::size_t next = 0;
  std::size_t done = 0;
  while (!running.empty() || (next < points.size() && !failure)) {
    while (!failure && running.size() < jobs && next < points.size()) {
      auto child = start(points[next], next);
      if (!child) {
        failure = child.error();
        break;
      }
      running.push_back(std::move(child).value());
      ++next;
    }
    if (running.empty()) break;  // not even the first could be started: poll would wait for ever
    std::vector<pollfd> waiting;
    for (const Child& child : running) waiting.push_back({child.pipe, POLLIN, 0});
    if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;
    for (std::size_t i = waiting.size(); i-- > 0;) {
      if (waiting[i].revents == 0) continue;
      std::array<char, 65536> buffer{};
      const ssize_t got = ::read(running[i].pipe, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got > 0) {
        running[i].text.append(buffer.data(), static_cast<std::size_t>(got));
        continue;
      }
      auto outcome = finish(running[i], points[running[i].point]);
      if (!outcome && !failure) failure = outcome.error();
      if (outcome) outcomes[running[i].point] = std::move(outcome).value();
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      progress(++done);
    }
  }
  if (failure) return *failure;
  return outcomes;
}

}  // namespace

Result<std::unique_ptr<ProbeTarget>> open_probe_target(const ProbeOptions& options) {
  if (!options.target.starts_with("sim:"))
    return Error{ErrorCode::unsupported, "this program measures simulated platforms only",
                 "--target " + options.target, "start perdure-native, or `perdure probe`"};
  auto description = platform::load_platform(options.target.substr(4));
  if (!description) return description.error();
  auto ablation = platform::parse_ablations(options.ablate);
  if (!ablation) return ablation.error();
  return std::unique_ptr<ProbeTarget>(
      std::make_unique<SimulatedTarget>(options, std::move(description).value(), *ablation));
}

}  // namespace perdure::driver

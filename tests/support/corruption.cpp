#include "support/corruption.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "support/samples.h"

namespace perdure::testing {
namespace {

constexpr int status_refused = 40;
constexpr int status_working = 41;
constexpr int status_differing = 42;

/// The used part of a pool file, to be damaged and put right again.
class Image {
 public:
  explicit Image(const std::string& path) : file_(::open(path.c_str(), O_RDWR)) {}
  ~Image() {
    if (file_ >= 0) ::close(file_);
  }
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  [[nodiscard]] bool read(std::uint64_t begin, std::uint64_t end) {
    begin_ = begin;
    head_.resize(begin);
    if (pread(file_, head_.data(), begin, 0) != static_cast<ssize_t>(begin)) return false;
    good_.resize(end - begin);
    if (file_ < 0 || pread(file_, good_.data(), good_.size(), static_cast<off_t>(begin)) !=
                         static_cast<ssize_t>(good_.size()))
      return false;
    const std::string empty(line_bytes, '\0');
    for (std::uint64_t at = 0; at + line_bytes <= good_.size(); at += line_bytes)
      if (good_.compare(at, line_bytes, empty) != 0) used_lines_.push_back(at);
    if (used_lines_.size() < 100) return false;
    good_.resize(used_lines_.back() + line_bytes);
    return true;
  }

  /// Overwrites in one of several ways; says what it did.
  std::string damage(Rng& rng) {
    std::string bad = good_;
    const std::uint64_t spots = 1 + rng.below(rng.below(2) == 0 ? 3 : 60);
    const std::uint64_t way = rng.below(5);
    std::uint64_t at = 0;
    for (std::uint64_t i = 0; i < spots; ++i) {
      const std::uint64_t line = used_line(rng);
      at = line + rng.below(line_bytes);
      const std::uint64_t aligned = at & ~std::uint64_t{7};
      if (way == 0) bad[at] = static_cast<char>(bad[at] ^ (1 << rng.below(8)));
      if (way == 1) bad[at] = static_cast<char>(rng.below(256));
      if (way == 2) bad.replace(aligned, 8, 8, static_cast<char>(rng.below(2) == 0 ? 0 : 255));
      if (way == 3) bad.replace(aligned, 8, good_, used_line(rng) + 8 * rng.below(8), 8);
      if (way == 4) bad.replace(line, line_bytes, good_, used_line(rng), line_bytes);
    }
    write(bad);
    return std::to_string(spots) + " spots, way " + std::to_string(way) + ", last at byte " +
           std::to_string(begin_ + at);
  }
  /// The header, too: every trial begins with a pool that was closed cleanly.
  void restore() {
    write(good_);
    if (pwrite(file_, head_.data(), head_.size(), 0) < 0) std::perror("pwrite");
  }

 private:
  static constexpr std::uint64_t line_bytes = 64;

  /// Where a line begins that holds anything: the rest of the file is a hole.
  std::uint64_t used_line(Rng& rng) const { return used_lines_[rng.below(used_lines_.size())]; }
  void write(const std::string& content) {
    if (pwrite(file_, content.data(), content.size(), static_cast<off_t>(begin_)) < 0)
      std::perror("pwrite");
  }

  int file_;
  std::uint64_t begin_ = 0;
  std::string head_;  ///< what lies before `begin_`, which is not damaged
  std::string good_;
  std::vector<std::uint64_t> used_lines_;
};

/// Which records a good pool holds.
bool is_kept(std::uint64_t number) { return number % 5 != 0; }

/// True when every lookup answers as it would have before the damage.
template <class Keys>
bool answers_as_before(OrderedIndex<Keys>& index, std::uint64_t records) {
  typename Keys::ValueOut value{};
  for (std::uint64_t i = 0; i < records; ++i) {
    const Outcome outcome = index.lookup(Samples<Keys>::numbered(i), value);
    if (is_kept(i) ? outcome != Outcome::ok || value != Samples<Keys>::stamped(i)
                   : outcome != Outcome::not_found)
      return false;
  }
  return true;
}

/// In the child: recovers and uses what it got.
template <class Keys>
int use(const Target& target, const BedOptions& options, const std::string& path,
        std::uint64_t records, bool settle) {
  auto bed = Bed<Keys>::open(target, options, path);
  if (!bed) return bed.error().what.empty() ? 1 : status_refused;
  OrderedIndex<Keys>& index = bed.value()->index();
  // An index that serves before its recovery has ended may refuse later: when it has.
  const bool serves_early = bed.value()->pool()->is_recovering();
  if (serves_early && settle) {
    index.quiesce();
    if (const auto sound = index.check_invariants(); !sound)
      return sound.error().what.empty() ? 1 : status_refused;
  }
  const bool same = answers_as_before<Keys>(index, records);
  typename Keys::ValueOut value{};
  typename Keys::Scan scan;
  for (std::uint64_t i = 0; i < records; ++i) {
    const auto key = Samples<Keys>::numbered(i);
    (void)index.lookup(key, value);
    if (i % 3 == 0) (void)index.remove(key);
    if (i % 3 == 1) (void)index.upsert(key, Samples<Keys>::stamped(i + 1));
    if (i % 100 == 0) {
      scan.clear();
      (void)index.scan(key, 50, scan);
    }
  }
  for (std::uint64_t i = records; i < 2 * records; ++i)
    (void)index.insert(Samples<Keys>::numbered(i), Samples<Keys>::stamped(i));
  const auto sound = index.check_invariants();
  index.quiesce();
  if (serves_early && !settle && !sound) return sound.error().what.empty() ? 1 : status_refused;
  return same ? status_working : status_differing;
}

/// The child's wait status; SIGKILL after `seconds`.
int wait_at_most(pid_t child, double seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return status;
}

template <class Keys>
Result<std::string> make_pool(Bed<Keys>& bed, std::uint64_t records) {
  for (std::uint64_t i = 0; i < records; ++i)
    if (bed.index().insert(Samples<Keys>::numbered(i), Samples<Keys>::stamped(i)) != Outcome::ok)
      return wrong("cannot fill the pool");
  for (std::uint64_t i = 0; i < records; ++i)
    if (!is_kept(i) && bed.index().remove(Samples<Keys>::numbered(i)) != Outcome::ok)
      return wrong("cannot fill the pool");
  bed.index().quiesce();
  if (auto done = bed.close(); !done) return done.error();
  return bed.path();
}

}  // namespace

template <class Keys>
Result<CorruptionReport> check_corruption(const Target& target, const CorruptionPlan& plan) {
  BedOptions options;
  options.pool_bytes = Pool::min_pool_bytes;
  options.options = small_nodes(*target.info);
  auto bed = Bed<Keys>::create(target, options);
  if (!bed) return bed.error();
  const std::uint64_t begin = 4096;
  auto path = make_pool(*bed.value(), plan.records);
  if (!path) return path.error();
  Image image(path.value());
  if (!image.read(begin, options.pool_bytes)) return wrong("cannot read the pool");
  Rng rng(plan.seed);
  CorruptionReport report;
  for (unsigned trial = 0; trial < plan.trials; ++trial) {
    const std::string what = trial == 0 ? "nothing" : image.damage(rng);
    const pid_t child = fork();
    if (child == 0) {
      const rlimit none{0, 0};
      setrlimit(RLIMIT_CORE, &none);
      _exit(use<Keys>(target, options, path.value(), plan.records, trial % 2 == 0));
    }
    const int status = wait_at_most(child, 30);
    image.restore();
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (code != status_refused && code != status_working && code != status_differing)
      return wrong(target.name() + ", seed " + std::to_string(plan.seed) + ", trial " +
                   std::to_string(trial) + ": damaged in " + what + ": the process " +
                   (WIFSIGNALED(status) ? "died of signal " + std::to_string(WTERMSIG(status))
                                        : "ended with " + std::to_string(code)));
    if (trial == 0 && code != status_working) return wrong("the undamaged pool was refused");
    ++(code == status_refused   ? report.refused
       : code == status_working ? report.working
                                : report.differing);
  }
  return report;
}

template Result<CorruptionReport> check_corruption<IntegerKeys>(const Target&,
                                                                const CorruptionPlan&);
template Result<CorruptionReport> check_corruption<ByteKeys>(const Target&, const CorruptionPlan&);
template Result<CorruptionReport> check_corruption<SlotKeys>(const Target&, const CorruptionPlan&);

}  // namespace perdure::testing

#include "support/damage.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "support/bed.h"

namespace perdure::testing {
namespace {

/// Exit statuses of a child: a Verdict, or that it had an Error. No other program ends like this.
constexpr int first_status = 40;
constexpr int status_error = 39;
constexpr int last_status = first_status + static_cast<int>(Verdict::differing);

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

[[noreturn]] void be_the_child(const std::function<Result<Verdict>(unsigned)>& use,
                               unsigned trial) {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const Result<Verdict> verdict = use(trial);
  if (!verdict) std::fprintf(stderr, "%s\n", verdict.error().line().c_str());
  _exit(verdict ? first_status + static_cast<int>(*verdict) : status_error);
}

}  // namespace

void CorruptionReport::add(Verdict verdict) {
  ++(verdict == Verdict::refused ? refused : verdict == Verdict::working ? working : differing);
}

PoolImage::PoolImage(const std::string& path) : file_(::open(path.c_str(), O_RDWR)) {}

PoolImage::~PoolImage() {
  if (file_ >= 0) ::close(file_);
}

bool PoolImage::read(std::uint64_t begin, std::uint64_t end, std::size_t least_lines) {
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
  if (used_lines_.size() < least_lines) return false;
  good_.resize(used_lines_.back() + line_bytes);
  return true;
}

std::string PoolImage::damage(Rng& rng) {
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
  overwrite(begin_, bad);
  return std::to_string(spots) + " spots, way " + std::to_string(way) + ", last at byte " +
         std::to_string(begin_ + at);
}

void PoolImage::overwrite(std::uint64_t at, const std::string& bytes) {
  if (pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(at)) < 0) std::perror("pwrite");
}

std::string PoolImage::bytes(std::uint64_t at, std::size_t count) const {
  return at < begin_ ? head_.substr(at, count) : good_.substr(at - begin_, count);
}

void PoolImage::restore() {
  overwrite(begin_, good_);
  overwrite(0, head_);
}

Result<CorruptionReport> try_damage(const DamagePlan& plan,
                                    const std::function<Result<Verdict>(unsigned trial)>& use) {
  constexpr std::uint64_t begin = 4096;  // what lies before is the pool's own
  PoolImage image(plan.path);
  if (!image.read(begin, plan.pool_bytes)) return wrong("cannot read the pool");
  Rng rng(plan.seed);
  CorruptionReport report;
  for (unsigned trial = 0; trial < plan.trials; ++trial) {
    const std::string what = trial == 0 ? "nothing" : image.damage(rng);
    const pid_t child = fork();
    if (child == 0) be_the_child(use, trial);
    const int status = wait_at_most(child, 30);
    image.restore();
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (code < first_status || code > last_status)
      return wrong(plan.name + ", seed " + std::to_string(plan.seed) + ", trial " +
                   std::to_string(trial) + ": damaged in " + what + ": the process " +
                   (WIFSIGNALED(status) ? "died of signal " + std::to_string(WTERMSIG(status))
                                        : "ended with " + std::to_string(code)));
    const auto verdict = static_cast<Verdict>(code - first_status);
    if (trial == 0 && verdict != Verdict::working) return wrong("the undamaged pool was refused");
    report.add(verdict);
  }
  return report;
}

}  // namespace perdure::testing

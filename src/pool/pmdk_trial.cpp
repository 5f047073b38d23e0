#include "pool/pmdk_trial.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "pool/file.h"
#include "pool/header.h"

namespace perdure {
namespace {

/// Exit codes of the child when libpmemobj does not end it.
enum Verdict : int { sound = 40, refused = 41, inconsistent = 42 };

bool opens_copies() {
  int copies = 0;
  return pmemobj_ctl_get(nullptr, "copy_on_write.at_open", &copies) == 0 && copies != 0;
}

bool has_other_threads() {
  std::error_code failure;
  const auto threads = std::filesystem::directory_iterator("/proc/self/task", failure);
  return failure || std::distance(begin(threads), end(threads)) > 1;
}

// Drops what the parent has set: handlers, messages, core files, and descriptors, among them locks
// that this process would still hold when the parent is killed.
void leave_the_parent(pid_t parent, unsigned seconds) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(sound);  // it was killed before prctl
  constexpr unsigned first_beyond_standard = 3;
  close_range(first_beyond_standard, ~0U, 0);
  for (const int number : {SIGINT, SIGTERM, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM})
    signal(number, SIG_DFL);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_UNBLOCK, &all, nullptr);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
  alarm(seconds);
}

Verdict look_through(const char* path, const char* layout) {
  int copies = 1;
  if (pmemobj_ctl_set(nullptr, "copy_on_write.at_open", &copies) != 0) return sound;
  PMEMobjpool* const objects = open_when_unlocked(path, layout);
  if (objects == nullptr) return refused;  // the caller meets the same, and says why
  if (pmemobj_root_size(objects) < sizeof(PoolHeader)) return inconsistent;
  std::uint64_t seen = 0;
  for (PMEMoid object = pmemobj_first(objects); object.off != 0; object = pmemobj_next(object))
    seen += pmemobj_alloc_usable_size(object);
  // libpmemobj reads its runs of blocks at the first allocation.
  pobj_action first_look;
  if (pmemobj_reserve(objects, &first_look, 64, 0).off != 0)
    pmemobj_cancel(objects, &first_look, 1);
  return seen == ~std::uint64_t{0} ? inconsistent : sound;
}

}  // namespace

PMEMobjpool* open_when_unlocked(const char* path, const char* layout) {
  PMEMobjpool* objects = nullptr;
  (void)until_unlocked([&] {
    objects = pmemobj_open(path, layout);
    return objects != nullptr;
  });
  return objects;
}

Result<void> try_pmdk_pool(const std::string& path, const char* layout, std::uint64_t bytes) {
  if (opens_copies()) return {};
  constexpr unsigned least_seconds = 20;
  const auto seconds = static_cast<unsigned>(least_seconds + (bytes >> 28));  // 4 s for a GiB
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return {};
  if (child == 0) {
    leave_the_parent(parent, seconds);
    _exit(look_through(path.c_str(), layout));
  }
  int status = 0;
  pid_t ended = 0;
  do ended = waitpid(child, &status, 0);
  while (ended < 0 && errno == EINTR);
  if (ended != child) return {};
  if (WIFEXITED(status) && (WEXITSTATUS(status) == sound || WEXITSTATUS(status) == refused))
    return {};
  const bool hung = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
  if (hung && has_other_threads()) return {};
  // Killed from outside: no verdict on the pool.
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return {};
  return corrupt_pool(path, hung ? "libpmemobj does not come back from opening the pool: what it "
                                   "keeps about its heap is damaged"
                                 : "libpmemobj dies of opening the pool: what it keeps about its "
                                   "heap is damaged");
}

}  // namespace perdure

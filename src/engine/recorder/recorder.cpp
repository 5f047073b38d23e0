#include "engine/recorder/recorder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

namespace perdure::engine {
namespace {

constexpr std::size_t write_at_bytes = std::size_t{256} << 10;
constexpr std::size_t most_pending_bytes = std::size_t{64} << 20;
/// What a killed server has not written is no older.
constexpr std::chrono::seconds longest_wait{1};
constexpr mode_t new_file_mode = 0600;  // it holds whatever the documents hold

Error unwritable(const std::string& path, int number) {
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  return {full ? ErrorCode::out_of_space : ErrorCode::io,
          std::string("cannot be written: ") + std::strerror(number), path,
          full ? "free some space, or name a file elsewhere with --record"
               : "name a file in a folder you may write to with --record"};
}

/// A trace, or nothing at all, which a killed server may have left.
bool is_replaceable(int file) {
  std::array<char, trace_magic.size()> magic{};
  const ssize_t bytes = pread(file, magic.data(), magic.size(), 0);
  return bytes == 0 || (bytes == static_cast<ssize_t>(magic.size()) &&
                        std::string_view(magic.data(), magic.size()) == trace_magic);
}

/// The descriptor.
Result<int> open_trace(const std::string& path, bool replaces) {
  const int made = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, new_file_mode);
  if (made >= 0) return made;
  if (errno == ENOENT)
    return Error{ErrorCode::not_found, "its folder does not exist", path,
                 "make the folder, or name a file elsewhere with --record"};
  if (errno != EEXIST) return unwritable(path, errno);
  struct stat status {};
  const bool is_file = stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
  if (is_file && !replaces)
    return Error{ErrorCode::exists, "exists already", path,
                 "name another file with --record, or replace it with --force"};
  const int file = open(path.c_str(), (is_file ? O_RDWR : O_WRONLY) | O_CLOEXEC | O_NOCTTY);
  if (file < 0) return unwritable(path, errno);
  if (!is_file) return file;  // a device or a pipe
  const bool ours = is_replaceable(file);
  if (ours && ftruncate(file, 0) == 0) return file;
  const int failure = errno;
  close(file);
  if (ours) return unwritable(path, failure);
  return Error{ErrorCode::exists, "is no trace, so it is not replaced", path,
               "name another file with --record"};
}

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::start(Options options) {
  const auto file = open_trace(options.path, options.replaces);
  if (!file) return file.error();
  std::unique_ptr<Recorder> recorder(new Recorder(std::move(options), *file));
  if (auto written = recorder->write(recorder->options_.header.encoded()); !written)
    return written.error();
  recorder->writer_ = std::thread([each = recorder.get()] { each->write_until_ended(); });
  return recorder;
}

Recorder::Recorder(Options options, int file) : options_(std::move(options)), file_(file) {}

Recorder::~Recorder() {
  end();
  close(file_);
}

void Recorder::saw(const Observation& observation) {
  if (has_failed_.load(std::memory_order_relaxed)) [[unlikely]]
    return;
  std::unique_lock lock(mutex_);
  room_.wait(lock, [this] { return pending_.size() < most_pending_bytes || failure_; });
  if (failure_) return;
  const std::size_t before = pending_.size();
  try {
    append_record(observation, pending_);
  } catch (const std::bad_alloc&) {
    // The operation has happened, and without it the rest would replay to something else.
    pending_.resize(before);
    fail({ErrorCode::out_of_space, "there is no memory for what is recorded", options_.path,
          "record on a machine with more memory"});
    return;
  }
  ++operations_;
  if (pending_.size() >= write_at_bytes) wake_.notify_one();
}

void Recorder::write_until_ended() {
  std::string writing;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait_for(lock, longest_wait,
                   [this] { return is_ending_ || failure_ || pending_.size() >= write_at_bytes; });
    if (failure_) break;
    if (pending_.empty()) {
      if (is_ending_) return;
      continue;
    }
    std::swap(pending_, writing);
    lock.unlock();
    room_.notify_all();
    const Result<void> written = write(writing);
    writing.clear();
    lock.lock();
    if (!written) fail(written.error());
  }
  room_.notify_all();
  lock.unlock();
  // What was written in part is of no use; a device has no length.
  [[maybe_unused]] const int ignored = ftruncate(file_, static_cast<off_t>(written_bytes_));
  if (options_.on_failure) options_.on_failure(*failure_);
}

Result<void> Recorder::write(std::string_view bytes) {
  for (std::string_view left = bytes; !left.empty();) {
    const ssize_t done = ::write(file_, left.data(), left.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return unwritable(options_.path, errno);
    left.remove_prefix(static_cast<std::size_t>(done));
  }
  written_bytes_ += bytes.size();
  return {};
}

void Recorder::fail(const Error& error) {
  failure_ = error;
  has_failed_.store(true, std::memory_order_relaxed);
  wake_.notify_one();
}

void Recorder::end() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_one();
  if (writer_.joinable()) writer_.join();
}

auto Recorder::finish(const Digest& digest) -> Result<Written> {
  {
    const std::lock_guard lock(mutex_);
    pending_ += TraceEnd{.operations = operations_, .digest = digest}.encoded();
  }
  end();
  if (failure_) return *failure_;
  return Written{operations_, written_bytes_};
}

}  // namespace perdure::engine

#include "engine/trace/trace.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace perdure::engine {
namespace {

constexpr const char* record_remedy = "record one with `perdure serve POOL --record FILE`";

/// Groups of things that must stay together: a forest whose roots name the groups.
class Groups {
 public:
  /// A group of its own for a text that is new.
  [[nodiscard]] std::uint32_t of(std::string_view text) {
    const auto [found, is_new] =
        number_.try_emplace(text, static_cast<std::uint32_t>(parent_.size()));
    if (is_new) parent_.push_back(found->second);
    return root(found->second);
  }
  void join(std::uint32_t a, std::uint32_t b) {
    const std::uint32_t first = std::min(root(a), root(b));
    parent_[root(a)] = first;
    parent_[root(b)] = first;
  }
  [[nodiscard]] std::uint32_t root(std::uint32_t member) {
    while (parent_[member] != member) member = parent_[member] = parent_[parent_[member]];
    return member;
  }

 private:
  std::unordered_map<std::string_view, std::uint32_t> number_;
  std::vector<std::uint32_t> parent_;
};

}  // namespace

Result<std::shared_ptr<const Trace>> Trace::open(const std::string& path) {
  const std::shared_ptr<Trace> trace(new Trace);
  trace->path_ = path;
  if (Result<void> mapped = trace->map(); !mapped) return mapped.error();
  if (Result<void> read = trace->read(); !read) return read.error();
  return std::shared_ptr<const Trace>(trace);
}

Trace::~Trace() {
  if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

Result<void> Trace::map() {
  const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && errno == ENOENT)
    return Error{ErrorCode::not_found, "there is no such trace", path_, record_remedy};
  struct stat status {};
  const bool is_open = file >= 0 && fstat(file, &status) == 0;
  const Error unreadable{ErrorCode::io, std::string("cannot be read: ") + std::strerror(errno),
                         path_, "name a file that you may read"};
  if (!is_open) {
    if (file >= 0) close(file);
    return unreadable;
  }
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (!S_ISREG(status.st_mode) || bytes < trace_header_bytes) {
    close(file);
    return Error{ErrorCode::foreign, "is no trace", path_, record_remedy};
  }
  void* const at = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  const int failure = errno;
  close(file);
  if (at == MAP_FAILED)
    return Error{ErrorCode::io, std::string("cannot be mapped: ") + std::strerror(failure), path_,
                 "free some memory"};
  bytes_ = {static_cast<const char*>(at), bytes};
  return {};
}

Error Trace::damaged(std::size_t at) const {
  return {ErrorCode::corrupt, "the trace is damaged at byte " + std::to_string(at), path_,
          "take a copy of the file, or record it again"};
}

Result<void> Trace::read() {
  std::uint32_t version = 0;
  std::optional<TraceHeader> header = read_header(bytes_, version);
  if (!header && version > trace_version)
    return Error{ErrorCode::newer, "is a trace of format " + std::to_string(version), path_,
                 "replay it with the version of perdure that recorded it"};
  if (!header && version == 0)
    return Error{ErrorCode::foreign, "is no trace", path_, record_remedy};
  if (!header) return damaged(0);
  header_ = std::move(*header);
  TraceOperation operation;
  TraceEnd end;
  std::size_t taken = 0;
  for (std::size_t at = trace_header_bytes; at != bytes_.size(); at += taken) {
    if (end_) return damaged(at);
    switch (read_record(bytes_.substr(at), operation, end, taken)) {
      case TracePart::operation:
        offset_.push_back(at);
        break;
      case TracePart::end:
        if (end.operations != offset_.size()) return damaged(at);
        end_ = end;
        break;
      case TracePart::cut_off:
        return {};
      case TracePart::damaged:
        return damaged(at);
    }
  }
  return {};
}

std::string_view Trace::record(std::size_t number) const noexcept {
  const std::uint64_t at = offset_[number];
  std::uint32_t bytes = 0;
  std::memcpy(&bytes, bytes_.data() + at + 4, sizeof bytes);
  return bytes_.substr(at, trace_prefix_bytes + bytes);
}

Result<std::vector<std::vector<std::uint32_t>>> Trace::deal(unsigned threads) const {
  if (size() > std::numeric_limits<std::uint32_t>::max())
    return Error{ErrorCode::unsupported, "has more than 4 billion operations", path_,
                 "record a shorter one"};
  std::vector<std::vector<std::uint32_t>> dealt(threads);
  if (threads == 1) {
    dealt.front().resize(size());
    std::iota(dealt.front().begin(), dealt.front().end(), 0U);
    return dealt;
  }
  Groups groups;
  std::vector<std::uint32_t> group(size());
  TraceOperation operation;
  for (std::size_t i = 0; i < size(); ++i) {
    decode_again(record(i), operation);
    if (operation.action == Action::remove_entries)
      return Error{ErrorCode::unsupported,
                   "an index is dropped in it, between all other operations", path_,
                   "leave --threads out"};
    group[i] = groups.of(operation.key);
    for (const auto* const entries : {&operation.added, &operation.gone})
      for (const TraceEntry& entry : *entries)
        if (entry.unique) groups.join(group[i], groups.of(entry.text));
  }
  // Groups in the order of their first operations, in turn: even, and the same at each run.
  std::unordered_map<std::uint32_t, unsigned> thread_of;
  for (std::size_t i = 0; i < size(); ++i) {
    const auto next = static_cast<unsigned>(thread_of.size() % threads);
    const auto [found, is_new] = thread_of.try_emplace(groups.root(group[i]), next);
    dealt[found->second].push_back(static_cast<std::uint32_t>(i));
  }
  return dealt;
}

}  // namespace perdure::engine

#include "driver/replay_worker.h"

#include <algorithm>
#include <utility>

#include "driver/target.h"
#include "engine/store/record.h"

namespace perdure::driver {
namespace {

using engine::Action;
using engine::DocumentStore;
using engine::Status;
using engine::TraceOperation;

constexpr std::size_t prepared_at_once = 256;
constexpr std::size_t prepared_bytes = std::size_t{1} << 20;

/// The change that was recorded, whatever is there.
class AsRecorded final : public DocumentStore::Change {
 public:
  explicit AsRecorded(const TraceOperation& operation) noexcept : operation_(operation) {}
  bool operator()(const std::string*, std::string& out, bool& remove) override {
    if (operation_.status == Status::unchanged) return false;
    remove = operation_.removes;
    if (!remove) out = operation_.second;
    return true;
  }

 private:
  const TraceOperation& operation_;
};

}  // namespace

void ReplayTally::note_difference(std::uint64_t at, std::string what) {
  if (differences++ != 0 && at >= first_difference_at) return;
  first_difference_at = at;
  first_difference = std::move(what);
}

void ReplayTally::merge(const ReplayTally& other) {
  for (std::size_t i = 0; i < latency_ns.size(); ++i) latency_ns[i].merge(other.latency_ns[i]);
  refused += other.refused;
  other_scans += other.other_scans;
  if (other.differences == 0) return;
  note_difference(other.first_difference_at, other.first_difference);
  differences += other.differences - 1;
}

std::uint64_t ReplayTally::executed() const noexcept {
  std::uint64_t executed = 0;
  for (const Histogram& each : latency_ns) executed += each.total();
  return executed;
}

bool ReplayRule::has_entries(std::string_view) const {
  const TraceOperation* const operation = now_[pm::thread_slot()];
  return operation != nullptr && operation->has_entries;
}

// The store asks for the entries of the old document and of the new one. A document that is written
// as it was has equal ones, so then both lists are empty.
void ReplayRule::entries(std::string_view, std::string_view document, engine::Entries& out) const {
  const Unmeasured free;
  const TraceOperation* const operation = now_[pm::thread_slot()];
  if (operation == nullptr) return;
  const bool is_new =
      operation->action == Action::add_entries ||
      (!operation->removes && operation->action != Action::remove && document == operation->second);
  for (const engine::TraceEntry& entry : is_new ? operation->added : operation->gone)
    out.add(entry.unique).append(entry.text);
}

bool ReplayWorker::fill() {
  const Unmeasured free;
  if (at_ < prepared_) return true;
  at_ = prepared_ = 0;
  std::size_t bytes = 0;
  std::size_t count = 0;
  for (; count < prepared_at_once && next_ + count < mine_.size() && bytes < prepared_bytes;
       ++count)
    bytes += trace_.record(mine_[next_ + count]).size();
  records_.clear();
  records_.reserve(bytes);
  operations_.resize(std::max(operations_.size(), count));
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view record = trace_.record(mine_[next_ + i]);
    const std::size_t begin = records_.size();
    records_ += record;
    engine::decode_again(std::string_view(records_).substr(begin), operations_[i]);
  }
  next_ += count;
  prepared_ = count;
  return prepared_ != 0;
}

void ReplayWorker::run(Rounds& rounds, OperationCounter& counter) {
  for (; at_ < prepared_ && !rounds.round_over(); ++at_) {
    // Whether there is room depends on what is cleaned when, so it may find some now.
    if (operations_[at_].status == Status::out_of_space)
      ++tally.refused;
    else
      execute(operations_[at_]);
    counter.done.store(++done_, std::memory_order_relaxed);
  }
}

void ReplayWorker::execute(const TraceOperation& operation) {
  std::uint64_t id = 0;
  {
    const Unmeasured free;
    found_.clear();
    entries_.clear();
    rule_.begin(operation);
    if (operation.action == Action::read) id = id_of(operation.key);
  }
  const Ticks start = clock_.now();
  const Status status = call(operation, id);
  const Ticks end = clock_.now();
  const Unmeasured free;
  tally.latency_ns[static_cast<std::size_t>(operation.action)].record(clock_.to_ns(end - start));
  compare(operation, status);
}

Status ReplayWorker::call(const TraceOperation& operation, std::uint64_t id) {
  std::uint64_t corrupt = 0;
  AsRecorded change(operation);
  switch (operation.action) {
    case Action::lookup:
      return store_.lookup(operation.key, document_);
    case Action::read:
      return store_.read(id, key_, document_);
    case Action::scan:
      store_.scan(operation.key, operation.second, operation.count, found_, next_key_, corrupt);
      return Status::ok;
    case Action::scan_entries:
      store_.scan_entries(operation.key, operation.second, operation.count, entries_, next_key_);
      return Status::ok;
    case Action::insert:
      return store_.put(operation.key, operation.second, Put::insert);
    case Action::update:
      return store_.put(operation.key, operation.second, Put::update);
    case Action::upsert:
      return store_.put(operation.key, operation.second, Put::upsert);
    case Action::remove:
      return store_.remove(operation.key);
    case Action::modify:
      return store_.modify(operation.key, change);
    case Action::add_entries:
      return store_.add_entries(operation.key);
    case Action::remove_entries:
      store_.remove_entries(operation.key, operation.second);
      break;
  }
  return Status::ok;
}

// A recorded id says nothing here; a server had it from an index entry, so looking for it is no
// part of the operation.
std::uint64_t ReplayWorker::id_of(std::string_view key) {
  std::vector<DocumentStore::Entry> entry;
  store_.scan_entries(key, std::string(key) + '\0', 1, entry, next_key_);
  return entry.empty() ? ~std::uint64_t{0} : entry.front().id;
}

void ReplayWorker::compare(const TraceOperation& operation, Status status) {
  const bool scans = operation.action == Action::scan || operation.action == Action::scan_entries;
  if (scans) {
    if (found_.size() + entries_.size() != operation.found) ++tally.other_scans;
    return;
  }
  const std::string what = "operation " + std::to_string(number() + 1) + " (" +
                           engine::name_of(operation.action) + "): ";
  if (status != operation.status) {
    tally.note_difference(number(), what + "recorded '" + engine::name_of(operation.status) +
                                        "', now '" + engine::name_of(status) + "'");
    return;
  }
  const bool finds = operation.action == Action::lookup || operation.action == Action::read;
  if (finds && status == Status::ok && engine::extend_crc(0, document_) != operation.answer)
    tally.note_difference(number(), what + "finds another document than was recorded");
}

}  // namespace perdure::driver

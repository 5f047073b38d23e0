#include "support/queue_bed.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "core/rng.h"
#include "pm/pm.h"

namespace perdure::testing {

std::string QueueTarget::name() const {
  std::string text = info->full_name() + "_" + name_of(heap);
  for (const std::string& option : options) text += "_" + option;
  std::ranges::replace_if(
      text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return text;
}

std::ostream& operator<<(std::ostream& out, const QueueTarget& target) {
  return out << target.name();
}

std::vector<QueueTarget> queue_targets() {
  std::vector<QueueTarget> list;
  for (const QueueInfo& info : QueueRegistry::all()) {
    if (info.recover == nullptr) continue;
    for (const HeapKind heap : {HeapKind::slab, HeapKind::pmdk})
      if (info.works_on(heap)) list.push_back({&info, heap});
    if (std::ranges::count(info.options, "pmemobj", &IndexOption::name) != 0)
      list.push_back({&info, HeapKind::pmdk, {"pmemobj=1"}});
  }
  return list;
}

std::vector<QueueTarget> slab_queue_targets() {
  std::vector<QueueTarget> list = queue_targets();
  std::erase_if(list, [](const QueueTarget& target) { return target.heap != HeapKind::slab; });
  return list;
}

Result<std::unique_ptr<QueueBed>> QueueBed::create_pool(const QueueTarget& target,
                                                        const QueueBedOptions& options) {
  pm::configure(pm::Durability::adr);
  std::unique_ptr<QueueBed> bed(new QueueBed);
  bed->target_ = target;
  bed->options_ = options;
  bed->folder_ = std::make_unique<TempFolder>();
  bed->path_ = bed->folder_->file("queue");
  auto pool = Pool::create({.path = bed->path_,
                            .heap = target.heap,
                            .bytes = options.pool_bytes,
                            .huge_pages = false,
                            .prefault = false});
  if (!pool) return pool.error();
  bed->pool_ = std::move(pool).value();
  return bed;
}

Result<std::unique_ptr<QueueBed>> QueueBed::create(const QueueTarget& target,
                                                   const QueueBedOptions& options) {
  auto bed = create_pool(target, options);
  if (!bed) return bed;
  if (auto made = bed.value()->make_queue(options); !made) return made.error();
  return bed;
}

Result<std::unique_ptr<QueueBed>> QueueBed::open(const QueueTarget& target,
                                                 const QueueBedOptions& options,
                                                 const std::string& path) {
  pm::configure(pm::Durability::adr);
  std::unique_ptr<QueueBed> bed(new QueueBed);
  bed->target_ = target;
  bed->options_ = options;
  bed->path_ = path;
  if (auto done = bed->recover(0); !done) return done.error();
  return bed;
}

Result<QueuePlace> QueueBed::place(const QueueBedOptions& options) const {
  std::vector<std::string> pairs = target_.options;
  pairs.push_back("slots=" + std::to_string(options.slots));
  pairs.push_back("payload_bytes=" + std::to_string(options.payload_bytes));
  auto chosen = QueueRegistry::options(*target_.info, pairs);
  if (!chosen) return chosen.error();
  QueuePlace place;
  place.pool = pool_.get();
  place.options = std::move(chosen).value();
  place.huge_pages = false;
  return place;
}

Result<void> QueueBed::make_queue(const QueueBedOptions& options) {
  options_.slots = options.slots;
  options_.payload_bytes = options.payload_bytes;
  const auto where = place(options_);
  if (!where) return where.error();
  auto made = create_queue(*target_.info, *where);
  if (!made) return made.error();
  queue_ = std::move(made).value();
  return {};
}

MadeQueue QueueBed::make_another(const std::string& root_name,
                                 const QueueBedOptions& options) const {
  auto where = place(options);
  if (!where) return where.error();
  where->root_name = root_name;
  return create_queue(*target_.info, *where);
}

Result<void> QueueBed::recover(std::uint64_t map_address) {
  auto pool = Pool::open(
      {.path = path_, .huge_pages = false, .prefault = false, .map_address = map_address});
  if (!pool) return pool.error();
  pool_ = std::move(pool).value();
  const auto where = place(options_);
  if (!where) return where.error();
  auto recovered = recover_queue(*target_.info, *where);
  if (!recovered) return recovered.error();
  queue_ = std::move(recovered).value();
  return {};
}

Result<Reopened> QueueBed::reopen(Reopen how) {
  const std::uint64_t elsewhere = free_address(pool_->extent_bytes());
  if (how == Reopen::clean) {
    if (auto done = close(); !done) return done.error();
  }
  drop();
  if (auto done = recover(elsewhere); !done) return done.error();
  return Reopened{pool_->leaked_blocks_freed(), pool_->heap().usage()};
}

Result<void> QueueBed::close() {
  settle_queue(*queue_, *pool_, QueuePlace{}.root_name);
  queue_.reset();
  Result<void> closed = pool_->close();
  pool_.reset();
  return closed;
}

void QueueBed::drop() {
  queue_.reset();
  pool_.reset();
}

std::string numbered_payload(std::uint64_t number, std::size_t most) {
  Rng rng(mix64(number + 1));
  std::string payload(rng.below(most + 1), '\0');
  for (char& each : payload) each = static_cast<char>(rng());
  std::memcpy(payload.data(), &number, std::min(payload.size(), sizeof number));
  return payload;
}

Result<void> fill(DurableQueue& queue, std::deque<std::string>& model, std::uint64_t& next) {
  for (;; ++next) {
    const std::string payload = numbered_payload(next, queue.payload_bytes());
    const auto producer = static_cast<std::uint32_t>(next % 3);
    const PushTag tag{producer, queue.last_push(producer) + 1};
    const bool has_tag = next % 2 != 0 && tag.number != 0;  // 0: damage, no number is left
    const Outcome outcome = has_tag ? queue.push(payload, tag) : queue.push(payload);
    if (outcome == Outcome::out_of_space) return {};
    if (outcome != Outcome::ok) return wrong(std::string("a push came to ") + name_of(outcome));
    model.push_back(payload);
    if (model.size() > queue.capacity())
      return wrong("it took " + std::to_string(model.size()) + " payloads, and can hold " +
                   std::to_string(queue.capacity()));
  }
}

Result<void> take(DurableQueue& queue, std::deque<std::string>& model, std::uint64_t count) {
  std::string payload;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Outcome outcome = queue.pop(payload);
    if (outcome != Outcome::ok)
      return wrong(std::string("a pop came to ") + name_of(outcome) + ", " +
                   std::to_string(model.size()) + " payloads are left");
    if (payload != model.front())
      return wrong("another payload came than was pushed " + std::to_string(i) +
                   " after the first");
    model.pop_front();
  }
  return {};
}

Result<void> drain(DurableQueue& queue, std::deque<std::string>& model) {
  if (queue.size() != model.size())
    return wrong("size() is " + std::to_string(queue.size()) + " where " +
                 std::to_string(model.size()) + " is right");
  if (auto done = take(queue, model, model.size()); !done) return done;
  std::string payload = "untouched";
  if (queue.pop(payload) != Outcome::not_found || payload != "untouched")
    return wrong("it gives more than was pushed");
  return {};
}

}  // namespace perdure::testing

#include "support/space.h"

#include <map>

#include "support/samples.h"

namespace perdure::testing {
namespace {

/// Values grow with a different stamp, so that an update of a full pool needs room.
template <class Keys>
class Filler {
 public:
  using Sample = Samples<Keys>;

  /// `most`: more records than the pool has room for.
  Filler(OrderedIndex<Keys>& index, std::uint64_t most) : index_(&index), most_(most) {}
  void rebind(OrderedIndex<Keys>& index) { index_ = &index; }

  /// Inserts until refused.
  Result<void> fill() {
    for (;; ++next_) {
      const Outcome outcome = index_->insert(scattered_key<Keys>(next_), Sample::stamped(next_));
      if (outcome == Outcome::out_of_space) return {};
      if (outcome != Outcome::ok)
        return wrong(std::string("an insert came to ") + name_of(outcome));
      stamps_[next_] = next_;
      if (stamps_.size() > most_) return wrong("the pool takes more than it can hold");
    }
  }

  /// Runs operations on a full index; every answer must be right.
  Result<void> press(bool replaces) {
    std::uint64_t tried = replaces ? 0 : 2000;
    for (auto& [i, stamp] : stamps_) {
      if (++tried > 2000) break;
      const std::uint64_t other = stamp + (1ULL << 40);
      const Outcome outcome = tried % 2 == 0
                                  ? index_->update(scattered_key<Keys>(i), Sample::stamped(other))
                                  : index_->upsert(scattered_key<Keys>(i), Sample::stamped(other));
      if (outcome == Outcome::ok)
        stamp = other;
      else if (outcome != Outcome::out_of_space)
        return wrong(std::string("an update of a present key came to ") + name_of(outcome));
    }
    for (std::uint64_t i = next_; i < next_ + 300; ++i) {
      const Outcome outcome = index_->insert(scattered_key<Keys>(i), Sample::stamped(i));
      if (outcome == Outcome::ok)
        stamps_[i] = i;
      else if (outcome != Outcome::out_of_space)
        return wrong(std::string("an insert into a full pool came to ") + name_of(outcome));
    }
    next_ += 300;
    return {};
  }

  Result<void> verify() {
    if (auto sound = index_->check_invariants(); !sound) return sound;
    if (index_->size() != stamps_.size())
      return wrong("size() is " + std::to_string(index_->size()) + " where " +
                   std::to_string(stamps_.size()) + " is right");
    typename Keys::ValueOut value{};
    for (const auto& [i, stamp] : stamps_)
      if (index_->lookup(scattered_key<Keys>(i), value) != Outcome::ok ||
          Sample::stamp_of(value) != stamp)
        return wrong("record " + std::to_string(i) + " is lost or wrong");
    return {};
  }

  /// Removes two of three records.
  Result<void> thin_out() {
    std::uint64_t position = 0;
    for (auto at = stamps_.begin(); at != stamps_.end();) {
      if (position++ % 3 == 0) {
        ++at;
        continue;
      }
      const Outcome outcome = index_->remove(scattered_key<Keys>(at->first));
      if (outcome != Outcome::ok)
        return wrong(std::string("a remove in a full pool came to ") + name_of(outcome));
      at = stamps_.erase(at);
    }
    index_->quiesce();
    return {};
  }

  /// Removes everything.
  Result<void> clear() {
    for (const auto& [i, stamp] : stamps_)
      if (index_->remove(scattered_key<Keys>(i)) != Outcome::ok) return wrong("a remove failed");
    stamps_.clear();
    index_->quiesce();
    return {};
  }

  [[nodiscard]] std::uint64_t records() const { return stamps_.size(); }

 private:
  OrderedIndex<Keys>* index_;
  std::uint64_t most_;
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, std::uint64_t> stamps_;
};

template <class Keys>
Result<void> fill_and_mend(Bed<Keys>& bed, Filler<Keys>& filler) {
  if (auto done = filler.fill(); !done) return done;
  const std::uint64_t full = filler.records();
  if (full < 1000) return wrong("the pool was full after " + std::to_string(full) + " records");
  if (auto done = filler.press(bed.target().info->replaces); !done) return done;
  if (auto done = filler.verify(); !done) return done;
  auto reopened = bed.reopen(Reopen::crash);
  if (!reopened) return reopened.error();
  filler.rebind(bed.index());
  if (auto done = filler.verify(); !done) return done;
  if (auto done = filler.thin_out(); !done) return done;
  if (auto done = filler.verify(); !done) return done;
  const std::uint64_t thinned = filler.records();
  if (auto done = filler.fill(); !done) return done;
  if (filler.records() < thinned + full / 20)
    return wrong("removes made no room: " + std::to_string(full) + " records, thinned to " +
                 std::to_string(thinned) + ", only " + std::to_string(filler.records()) +
                 " fitted again");
  return filler.verify();
}

template <class Keys>
Result<void> run(const Target& target, std::uint64_t pool_bytes) {
  BedOptions options;
  options.options = short_list(*target.info);
  options.pool_bytes = pool_bytes;
  auto bed = Bed<Keys>::create(target, options);
  if (!bed) return bed.error();
  const std::uint64_t empty_blocks = bed.value()->pool()->heap().usage().live_blocks;
  Filler<Keys> filler(bed.value()->index(), pool_bytes / 16);
  if (auto done = fill_and_mend(*bed.value(), filler); !done) return done;
  bed.value()->index().quiesce();
  const std::uint64_t live = bed.value()->pool()->heap().usage().live_blocks;
  auto reopened = bed.value()->reopen(Reopen::clean);
  if (!reopened) return reopened.error();
  filler.rebind(bed.value()->index());
  if (reopened->leaked_blocks_freed != 0 || reopened->usage.live_blocks != live)
    return wrong("a full pool leaks: " + std::to_string(live) + " live blocks, " +
                 std::to_string(reopened->usage.live_blocks) + " reachable");
  if (auto done = filler.verify(); !done) return done;
  if (auto done = filler.clear(); !done) return done;
  const std::uint64_t left = bed.value()->pool()->heap().usage().live_blocks;
  // An index may keep a few empty nodes for later, but not one for every record it once had.
  if (left > empty_blocks + 100)
    return wrong("an emptied index keeps " + std::to_string(left) + " blocks");
  return filler.verify();
}

}  // namespace

template <class Keys>
Result<void> check_out_of_space(const Target& target, std::uint64_t pool_bytes) {
  auto done = run<Keys>(target, pool_bytes);
  if (done.ok()) return done;
  Error error = done.error();
  error.where = target.name();
  return error;
}

template Result<void> check_out_of_space<IntegerKeys>(const Target&, std::uint64_t);
template Result<void> check_out_of_space<ByteKeys>(const Target&, std::uint64_t);
template Result<void> check_out_of_space<SlotKeys>(const Target&, std::uint64_t);

}  // namespace perdure::testing

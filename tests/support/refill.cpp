#include "support/refill.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/rng.h"
#include "support/samples.h"

namespace perdure::testing {
namespace {

/// The value of a record in its `version`; byte strings have lengths of their own in each.
template <class Keys>
typename Samples<Keys>::Value value_at(std::uint64_t i, std::uint64_t version) {
  const std::uint64_t mixed = mix64(i * 64 + version);
  if constexpr (Keys::kind == KeyKind::integer)
    return mixed;
  else
    return std::string(8 + mixed % 48, static_cast<char>('a' + mixed / 64 % 26));
}

Result<void> refused(const char* what, std::uint64_t i, Outcome outcome) {
  return wrong(std::string(what) + " of record " + std::to_string(i) + " came to " +
               name_of(outcome));
}

/// Fills the part of the pool that the index may not use.
class Ballast {
 public:
  Ballast(Heap& heap, std::uint64_t room_bytes) : heap_(heap) {
    constexpr std::size_t block_bytes = 256 << 10;
    while (heap.usage().free_bytes() > room_bytes + block_bytes) {
      const Reservation block = heap.reserve(block_bytes);
      if (!block) break;
      blocks_.push_back(block);
    }
  }
  ~Ballast() {
    for (Reservation& block : blocks_) heap_.cancel(block);
  }
  Ballast(const Ballast&) = delete;
  Ballast& operator=(const Ballast&) = delete;

 private:
  Heap& heap_;
  std::vector<Reservation> blocks_;
};

/// Thread t of n inserts the records t, t + n, t + 2 n ...
template <class Keys>
class Crowd {
 public:
  Crowd(OrderedIndex<Keys>& index, unsigned threads) : index_(index), held_(threads) {}

  /// Each thread inserts until it has inserted `most`, or is refused many times in a row, and a
  /// quarter as much after that; when it fills again, as often as the first time. When the first
  /// refusals come is chance, among several threads; what there is room for in the end is not.
  Result<void> fill(std::size_t most = ~std::size_t{0}) {
    constexpr unsigned most_refusals = 50;
    return in_parallel([&](unsigned t) -> Result<void> {
      unsigned refusals = 0;
      std::uint64_t& tries = held_[t].tries;
      std::uint64_t tried = 0;
      for (std::uint64_t i = t; held_[t].records.size() < most && (tries == 0 || tried < tries);
           i += held_.size(), ++tried) {
        if (tries == 0 && refusals == most_refusals) tries = tried + tried / 4;
        const Outcome outcome = index_.insert(scattered_key<Keys>(i), value_at<Keys>(i, 0));
        if (outcome != Outcome::ok && outcome != Outcome::out_of_space)
          return refused("an insert", i, outcome);
        refusals = outcome == Outcome::ok ? 0 : refusals + 1;
        if (outcome == Outcome::ok) held_[t].records.push_back(i);
      }
      return {};
    });
  }

  /// The sum over all threads.
  [[nodiscard]] std::vector<std::uint64_t> records() const {
    std::vector<std::uint64_t> all;
    for (const Held& held : held_) all.insert(all.end(), held.records.begin(), held.records.end());
    return all;
  }

  /// Removes these records, from a thread that ends then.
  Result<void> take_out(const std::vector<std::uint64_t>& records) {
    Result<void> done;
    std::thread([&] {
      for (const std::uint64_t i : records) {
        const Outcome outcome = index_.remove(scattered_key<Keys>(i));
        if (outcome == Outcome::ok) continue;
        done = refused("a remove", i, outcome);
        return;
      }
    }).join();
    return done;
  }

  void forget() {
    for (Held& held : held_) held.records.clear();
  }

  template <class Work>
  Result<void> in_parallel(Work&& work) {
    std::vector<Result<void>> results(held_.size());
    {
      std::vector<std::jthread> threads;
      for (unsigned t = 0; t < held_.size(); ++t)
        threads.emplace_back([&, t] { results[t] = work(t); });
    }
    for (const Result<void>& result : results)
      if (!result) return result;
    return {};
  }

 private:
  struct alignas(64) Held {
    std::vector<std::uint64_t> records;
    std::uint64_t tries = 0;  ///< of a fill; 0: not known yet
  };
  OrderedIndex<Keys>& index_;
  std::vector<Held> held_;
};

template <class Keys>
Result<void> fill_again_and_again(Bed<Keys>& bed, const Refill& refill) {
  Crowd<Keys> crowd(bed.index(), refill.threads);
  std::string counts;
  std::uint64_t first = 0;
  // Which threads find the last room is chance; room that is lost is missing in each round after.
  constexpr unsigned second_chances = 2;
  unsigned rounds = refill.rounds;
  for (unsigned round = 0; round < rounds; ++round) {
    if (auto done = crowd.fill(); !done) return done;
    const std::vector<std::uint64_t> records = crowd.records();
    counts += (round == 0 ? "" : ", ") + std::to_string(records.size());
    if (round == 0) first = records.size();
    if (bed.index().size() != records.size()) return wrong("size() is wrong in round " + counts);
    if (first < 500) return wrong("the pool was full after " + counts + " records");
    if (records.size() * 100 < first * refill.percent) {
      if (rounds == refill.rounds + second_chances)
        return wrong("a pool that was emptied takes less: " + counts + " records");
      ++rounds;
    }
    if (auto done = crowd.take_out(records); !done) return done;
    if (bed.index().size() != 0) return wrong("an emptied index has records");
    crowd.forget();
  }
  return {};
}

/// `full`: how many records fit; 0: fills the pool and takes a tenth of them out.
template <class Keys>
Result<void> replace_values(Bed<Keys>& bed, const Refill& refill, std::uint64_t full) {
  OrderedIndex<Keys>& index = bed.index();
  constexpr std::uint64_t passes = 2;
  Crowd<Keys> loader(index, 1);
  if (auto done = full == 0 ? loader.fill() : loader.fill(full * 9 / 10); !done) return done;
  std::vector<std::uint64_t> kept;
  std::vector<std::uint64_t> gone;
  for (const std::uint64_t i : loader.records())
    (full == 0 && i % 10 == 0 ? gone : kept).push_back(i);
  if (auto done = loader.take_out(gone); !done) return done;
  const auto replace = [&](std::uint64_t i, std::uint64_t version) -> Result<void> {
    const Outcome outcome = (i + version) % 2 == 0
                                ? index.update(scattered_key<Keys>(i), value_at<Keys>(i, version))
                                : index.upsert(scattered_key<Keys>(i), value_at<Keys>(i, version));
    return outcome == Outcome::ok ? Result<void>{} : refused("the replacement", i, outcome);
  };
  Crowd<Keys> writers(index, refill.threads);
  const auto done = writers.in_parallel([&](unsigned t) -> Result<void> {
    for (std::uint64_t version = 1; version <= passes; ++version)
      for (std::size_t n = t; n < kept.size(); n += refill.threads)
        if (auto replaced = replace(kept[n], version); !replaced) return replaced;
    return {};
  });
  if (!done) return done;
  for (std::size_t n = 0; n < kept.size() && n < 3000; ++n)
    if (auto alone = replace(kept[n], passes); !alone) return alone;
  typename Keys::ValueOut value{};
  for (const std::uint64_t i : gone)
    if (const Outcome outcome = index.lookup(scattered_key<Keys>(i), value);
        outcome != Outcome::not_found)
      return refused("a lookup", i, outcome);
  for (const std::uint64_t i : kept)
    if (index.lookup(scattered_key<Keys>(i), value) != Outcome::ok ||
        value != value_at<Keys>(i, passes))
      return wrong("record " + std::to_string(i) + " is lost or has another value");
  return {};
}

template <class Keys, class Work>
Result<void> on_a_bed(const Target& target, const Refill& refill, Work&& work) {
  BedOptions options;
  options.options = short_list(*target.info);
  options.pool_bytes = refill.pool_bytes;
  auto bed = Bed<Keys>::create(target, options);
  if (!bed) return bed.error();
  Result<void> done;
  {
    const Ballast ballast(bed.value()->pool()->heap(), refill.room_bytes);
    done = work(*bed.value());
  }
  if (done.ok()) done = bed.value()->index().check_invariants();
  if (done.ok()) return done;
  Error error = done.error();
  error.where = target.name();
  return error;
}

}  // namespace

template <class Keys>
Result<void> check_refill(const Target& target, const Refill& refill) {
  return on_a_bed<Keys>(target, refill,
                        [&](Bed<Keys>& bed) { return fill_again_and_again(bed, refill); });
}

template <class Keys>
Result<void> check_replacing(const Target& target, const Refill& refill, Left left) {
  std::uint64_t full = 0;
  for (unsigned i = 0; left == Left::untouched && i < refill.counts; ++i) {
    const auto counted = on_a_bed<Keys>(target, refill, [&](Bed<Keys>& bed) {
      Crowd<Keys> crowd(bed.index(), 1);
      const Result<void> done = crowd.fill();
      const std::uint64_t records = crowd.records().size();
      full = full == 0 ? records : std::min(full, records);
      return done;
    });
    if (!counted) return counted;
  }
  return on_a_bed<Keys>(target, refill, [&](Bed<Keys>& bed) -> Result<void> {
    if (!target.info->replaces) return {};
    return replace_values(bed, refill, full);
  });
}

template Result<void> check_refill<IntegerKeys>(const Target&, const Refill&);
template Result<void> check_refill<ByteKeys>(const Target&, const Refill&);
template Result<void> check_refill<SlotKeys>(const Target&, const Refill&);
template Result<void> check_replacing<IntegerKeys>(const Target&, const Refill&, Left);
template Result<void> check_replacing<ByteKeys>(const Target&, const Refill&, Left);
template Result<void> check_replacing<SlotKeys>(const Target&, const Refill&, Left);

}  // namespace perdure::testing

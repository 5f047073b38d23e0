#include "support/corruption.h"

#include "support/samples.h"

namespace perdure::testing {
namespace {

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

/// Who refuses must say why.
Result<Verdict> refusal(const Error& error) {
  if (error.what.empty()) return wrong("the pool was refused without a word");
  return Verdict::refused;
}

/// In the child: recovers and uses what it got.
template <class Keys>
Result<Verdict> use(const Target& target, const BedOptions& options, const std::string& path,
                    std::uint64_t records, bool settle) {
  auto bed = Bed<Keys>::open(target, options, path);
  if (!bed) return refusal(bed.error());
  OrderedIndex<Keys>& index = bed.value()->index();
  // An index that serves before its recovery has ended may refuse later: when it has.
  const bool serves_early = bed.value()->pool()->is_recovering();
  if (serves_early && settle) {
    index.quiesce();
    if (const auto sound = index.check_invariants(); !sound) return refusal(sound.error());
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
  if (serves_early && !settle && !sound) return refusal(sound.error());
  return same ? Verdict::working : Verdict::differing;
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
  auto path = make_pool(*bed.value(), plan.records);
  if (!path) return path.error();
  const DamagePlan damage{.name = target.name(),
                          .path = path.value(),
                          .pool_bytes = options.pool_bytes,
                          .seed = plan.seed,
                          .trials = plan.trials};
  return try_damage(damage, [&](unsigned trial) {
    return use<Keys>(target, options, path.value(), plan.records, trial % 2 == 0);
  });
}

template Result<CorruptionReport> check_corruption<IntegerKeys>(const Target&,
                                                                const CorruptionPlan&);
template Result<CorruptionReport> check_corruption<ByteKeys>(const Target&, const CorruptionPlan&);
template Result<CorruptionReport> check_corruption<SlotKeys>(const Target&, const CorruptionPlan&);

}  // namespace perdure::testing

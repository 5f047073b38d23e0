// What an earlier run left in a reused index: it decides where fresh keys begin and what the
// verifier expects.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "driver/instance.h"
#include "driver/records.h"
#include "driver/run_context.h"
#include "workload/keys.h"

namespace perdure::driver {

/// One more than the id of `key`, or 0 for a key that no run of this workload can have inserted.
template <class Key>
std::uint64_t id_end(const workload::KeySpace& keys, Key key) {
  constexpr std::uint64_t most = 1ULL << 56;
  std::uint64_t id = most;
  if constexpr (std::is_integral_v<Key>)
    id = keys.id_of(key);
  else
    id = keys.id_of(key).value_or(most);
  return id < most ? id + 1 : 0;
}

/// Looks up a sample of the keys that the workload loads: in a pool of another seed or key form
/// every operation would miss. Errors: bad_input, when none is there.
template <class Keys>
Result<void> sample_loaded(const BenchConfig& config, OrderedIndex<Keys>& index,
                           const workload::KeySpace& keys) {
  constexpr std::uint64_t most_samples = 1000;
  const std::uint64_t records = config.workload.records;
  if (records == 0 || !config.index.verifiable) return {};
  const std::uint64_t step = std::max<std::uint64_t>(1, records / most_samples);
  std::string text(keys.longest(), '\0');
  typename Keys::ValueOut value{};
  const auto is_there = [&](std::uint64_t id) {
    if constexpr (has_text_keys<Keys>)
      return index.lookup(std::string_view(text.data(), keys.write(id, text.data())), value) ==
             Outcome::ok;
    else
      return index.lookup(keys.word(id), value) == Outcome::ok;
  };
  for (std::uint64_t id = 0; id < records; id += step)
    if (is_there(id)) return {};
  return Error{ErrorCode::bad_input, "holds none of the keys this workload loads", config.pool_path,
               "give the --records, --seed and --keys it was created with"};
}

/// Sets `instance.first_fresh_id` and gives the verifier the records that are there.
/// Errors: those of `sample_loaded`.
template <class Keys>
Result<void> look_at_reused(const RunContext& run, Instance<Keys>& instance) {
  const BenchConfig& config = run.config;
  const workload::KeySpace keys(instance.workload);
  if (auto sampled = sample_loaded(config, *instance.index, keys); !sampled) return sampled;
  const std::uint64_t present = instance.index->size();
  if (present != config.workload.records)
    run.result.warnings.push_back("the index holds " + std::to_string(present) +
                                  " records, the workload loads " +
                                  std::to_string(config.workload.records));
  const bool inserts = config.workload.mix.has(workload::Operation::insert);
  if (!config.verify && !inserts) return {};
  if (!config.index.ordered) {
    if (inserts)
      run.result.warnings.emplace_back(
          "an unordered index cannot tell which keys it holds: inserts may meet present keys");
    return {};
  }
  run.progress.show("read the reused records", -1, 0);
  std::uint64_t end = 0;
  for_each_record(*instance.index, [&](auto key, auto value) {
    if (config.verify) instance.verifier->adopt(key, value);
    end = std::max(end, id_end(keys, key));
  });
  instance.first_fresh_id = std::max(end, config.workload.records);
  return {};
}

}  // namespace perdure::driver

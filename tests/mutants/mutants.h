// Mutants: indexes that are broken on purpose, to show that the suites catch what they are for.
// Each wraps a sound index and breaks one thing. None is in the registry.
#pragma once

#include "index/registry.h"

namespace perdure::testing {

enum class Fault {
  none,                   ///< the wrapper alone: must pass everything
  loses_an_update,        ///< sometimes says ok and changes nothing
  insert_ok_on_present,   ///< does not say that the key exists
  insert_overwrites,      ///< says that the key exists, and replaces its value
  remove_says_not_found,  ///< removes the key and says not_found
  scan_skips,             ///< sometimes leaves a record out
  scan_repeats,           ///< sometimes returns a record twice
  scan_too_short,         ///< stops one record early
  signed_order,           ///< scans keys from 2^63 first
  wrong_size,             ///< miscounts
  takes_long_keys,        ///< does not refuse keys over the limit (cuts them)
  cuts_at_zero,           ///< byte keys end at their first zero byte
  racy_insert,            ///< looks up and inserts in two steps
  stale_lookup,           ///< a lookup may return the value before the last one
  batch_backwards,        ///< does a batch from its end
  batch_forgets_last,     ///< says ok of a batch's last update and does not do it
  forgets_on_recovery,    ///< keeps its records in DRAM
  acknowledges_early,     ///< says ok one operation before it is done
  leaks_a_block,          ///< publishes a block that nothing links to, at every 50th remove
  follows_wild_pointers,  ///< recovery trusts an offset on media
  ignores_out_of_space,   ///< says ok when there is no room
  drops_when_full,        ///< removes the old record before it knows that the new one fits
};
[[nodiscard]] const char* name_of(Fault fault) noexcept;

/// The description of a mutant: `fault` over stdmap (in memory) or chained_hash (persistent).
[[nodiscard]] const IndexInfo& mutant(Fault fault);

/// Makes the mutants known to the child of a kill round, which finds its index by name.
void register_mutants();

}  // namespace perdure::testing

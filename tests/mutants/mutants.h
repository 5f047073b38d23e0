// Mutants: indexes that are broken on purpose, so that the suites are seen to catch what they are
// for. Each wraps a sound index and spoils one thing. They are registered nowhere.
#pragma once

#include "index/registry.h"

namespace perdure::testing {

enum class Fault {
  none,                   ///< the wrapper alone: must pass everything
  loses_an_update,        ///< says ok, and changes nothing, now and then
  insert_ok_on_present,   ///< does not tell that the key exists
  insert_overwrites,      ///< tells that the key exists, and replaces its value
  remove_says_not_found,  ///< removes and denies it
  scan_skips,             ///< leaves a record out, now and then
  scan_repeats,           ///< shows a record twice, now and then
  scan_too_short,         ///< stops one record early
  signed_order,           ///< scans keys from 2^63 first
  wrong_size,             ///< miscounts
  takes_long_keys,        ///< does not refuse keys over the limit (cuts them)
  cuts_at_zero,           ///< byte keys end at their first zero byte
  racy_insert,            ///< looks first and inserts then, not at once
  stale_lookup,           ///< a lookup may tell the value before the last one
  forgets_on_recovery,    ///< keeps its records in DRAM
  acknowledges_early,     ///< one operation behind: says ok before it is done
  leaks_a_block,          ///< publishes a block that nothing links to, at every 50th remove
  follows_wild_pointers,  ///< recovery trusts an offset on media
  ignores_out_of_space,   ///< says ok when there is no room
  drops_when_full,        ///< takes the old record out before it knows that the new one fits
};
[[nodiscard]] const char* name_of(Fault fault) noexcept;

/// The description of a mutant: `fault` over stdmap (in memory) or chained_hash (persistent).
[[nodiscard]] const IndexInfo& mutant(Fault fault);

/// Makes the mutants known to the child of a kill round, which finds its index by name.
void register_mutants();

}  // namespace perdure::testing

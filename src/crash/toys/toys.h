// Toys: small structures with one planted defect each, and their repaired twins. They prove the
// prover: every defect must be found, and no twin objected to.
#pragma once

#include <span>

#include "index/registry.h"

namespace perdure::crash {

enum class Defect : std::uint8_t {
  missing_flush,
  missing_fence,
  wrong_address,
  flush_of_a_temporary,
  last_line_missed,      ///< a loop that forgets the last line of an object that straddles
  valid_before_payload,  ///< in another line
  two_tokens,            ///< one publication in two words
  non_atomic_move,
  unlock_before_flush,
  publish_before_init,
  free_before_unlink,  ///< is durable
  log_reset_unflushed,
  replay_not_idempotent,
  lock_survives,
  leak_in_allocation,
  read_of_unflushed,
  elided_publish,  ///< payload and valid bit in one hardware transaction; sound with the lock alone
  slots_used_once,        ///< a table that is full of slots whose records are gone
  slots_not_counted,      ///< a recovery that forgets to count the free ones, and refuses
  dead_nodes_stay,        ///< removed records keep their blocks, which recovery reaches
  old_node_not_freed,     ///< by an update that other threads wait for
  recovery_unflushed,     ///< what recovery applies of a log is lost, and the log is gone
  recovery_clears_first,  ///< the log, before it applies it
  torn_pair,              ///< two words that are stored as one
  recovery_unlink,        ///< recovery unlinks a node and does not flush the link
  recovery_duplicate,     ///< recovery removes one of two copies and does not flush that
  recovery_half_move,     ///< recovery does a move again and does not flush that it is done
  bounded_retries,        ///< goes on without the lock after 16 tries
  early_growth,           ///< a table that grows is published before its records are in it
  stale_parent,           ///< a separator goes to a node that was split since the search came by
  batch_end_unflushed,    ///< a batch returns before its last change is durable
  batch_backwards,        ///< a batch is done from its end, so that of two values the first stays
};
inline constexpr std::size_t defects = 32;
[[nodiscard]] const char* name_of(Defect defect) noexcept;

/// All toys by defect: "toy:missing_flush", then the twins: "toy:missing_flush:repaired". Not in
/// the registry: nobody shall use them by accident.
[[nodiscard]] std::span<const IndexInfo> toys();
/// Threads a defect takes to show.
[[nodiscard]] unsigned threads_of(Defect defect) noexcept;
/// Operations of one call that it takes to show.
[[nodiscard]] unsigned batch_of(Defect defect) noexcept;
/// Whether it takes hardware transactions to show.
[[nodiscard]] bool is_elided(Defect defect) noexcept;

}  // namespace perdure::crash

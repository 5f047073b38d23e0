// Leftovers: what a process that was killed while it created or replaced a pool has left beside it.
//
// V1  the name of a pool's first part stands for the whole pool. So it comes last when a pool is
//     made, and goes first when one of several parts is replaced: whoever is killed meanwhile
//     leaves the old pool, the new one, or none.
// V2  what is left then is told by its name and its content (the interim names of NewFile), or by
//     its header (H5), and by its lock, which nobody holds any more.
#pragma once

#include <string>
#include <vector>

#include "core/result.h"
#include "pool/file.h"
#include "pool/header.h"

namespace perdure {

/// Removes what killed creations have left of a pool at `path` (V2). Never the pool itself, nor
/// what is not ours.
void remove_leftovers(const std::string& path);

/// The further parts of the pool whose first part is to be replaced: they go with it.
class ReplacedParts {
 public:
  /// Finds and locks those from `kept` on; the caller holds the ones before. Errors: busy.
  [[nodiscard]] static Result<ReplacedParts> of(const std::string& path, unsigned kept);

  /// True where some are replaced one by one: then the first part's name goes before theirs (V1).
  [[nodiscard]] bool go_one_by_one() const noexcept { return all_.size() > surplus_.size(); }
  /// Says durably that they may be removed as soon as their first part is gone (H5).
  [[nodiscard]] Result<void> disown() const;
  /// Takes the names of those that nothing replaces.
  void remove_surplus() const;

 private:
  std::vector<std::string> all_;
  std::vector<std::string> surplus_;
  std::vector<File> locked_;
};

}  // namespace perdure

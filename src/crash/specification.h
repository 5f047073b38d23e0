// Specification: which answers operations may give, and which contents a power cut may leave. One
// implementation for each kind of structure: History for maps, QueueHistory for queues.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace perdure::crash {

struct Recorded;
struct Subject;
class Vocabulary;

/// What a structure holds, in numbers. A map: by key, its stamp or `absent`. A queue: by producer,
/// the number of its last push that took effect (0 where it keeps none), then the stamps of the
/// payloads, the oldest first.
using Contents = std::vector<std::uint64_t>;

class Specification {
 public:
  virtual ~Specification() = default;
  Specification() = default;
  Specification(const Specification&) = delete;
  Specification& operator=(const Specification&) = delete;

  virtual void call(std::uint32_t operation) = 0;
  /// Empty, or why no order of the operations explains the answer.
  [[nodiscard]] virtual std::string ret(std::uint32_t operation) = 0;
  /// The power is cut here, and another process goes on: operations in flight have taken effect, or
  /// never will.
  virtual void cut() = 0;

  /// Whether a recovery may find this now.
  [[nodiscard]] virtual bool allows(const Contents& found) const = 0;
  /// Empty, or why not. Where `may_be_torn(key)`, a torn value of that key is excused.
  using MayBeTorn = std::function<bool(std::uint16_t key)>;
  [[nodiscard]] virtual std::string objection(const Contents& found,
                                              const MayBeTorn& may_be_torn) const = 0;
  /// Digest of all that is allowed.
  [[nodiscard]] virtual std::uint64_t digest() const noexcept = 0;
  /// Operations called and not returned.
  [[nodiscard]] virtual const std::vector<std::uint32_t>& open() const noexcept = 0;
  /// So many orders are possible that they are followed no longer: all is allowed from here on.
  [[nodiscard]] virtual bool gave_up() const noexcept { return false; }
};

/// Of a run, at its begin. All arguments outlive it.
[[nodiscard]] std::unique_ptr<Specification> specify(const Subject& subject,
                                                     const Vocabulary& vocabulary,
                                                     const Recorded& run);

}  // namespace perdure::crash

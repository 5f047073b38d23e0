// History: which contents of the index a power cut at this moment may leave.
//
// Durable linearizability, decided key by key (linearizability is local): for every key all states
// are kept that the map can be in, each with the open operations that have taken effect in it. At a
// return the operation must have taken effect, with the answer it gave. After a cut the key may
// hold what any of these states holds, open operations all or nothing. The operations of a batch
// are open together and take effect on each key in their order, but for lookups. Source of the
// idea: Lowe, "Testing for linearizability", CCPE 2017; Izraelevitz et al., DISC 2016.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "crash/specification.h"
#include "crash/workload.h"

namespace perdure::crash {

class History final : public Specification {
 public:
  /// `operations` and their answers by number, as the trace's calls and returns name them. `show`
  /// names keys in texts; without it they go by their numbers.
  using Show = std::function<std::string(std::uint16_t key)>;
  History(const std::vector<Operation>& operations, const std::vector<Answer>& answers,
          std::uint16_t keys, Show show = {});

  void call(std::uint32_t operation) override;
  [[nodiscard]] std::string ret(std::uint32_t operation) override;
  void cut() override;
  [[nodiscard]] bool allows(const Contents& found) const override;
  [[nodiscard]] std::string objection(const Contents& found,
                                      const MayBeTorn& may_be_torn) const override;

  /// The stamps the key may hold now, or `absent`; never empty.
  [[nodiscard]] std::span<const std::uint64_t> allowed(std::uint16_t key) const;
  [[nodiscard]] bool allows(std::uint16_t key, std::uint64_t stamp) const {
    return lowest_[key] == stamp || allows_above(key, stamp);
  }
  [[nodiscard]] std::uint64_t digest() const noexcept override { return digest_; }
  [[nodiscard]] const std::vector<std::uint32_t>& open() const noexcept override { return open_; }
  [[nodiscard]] std::uint16_t keys() const noexcept {
    return static_cast<std::uint16_t>(keys_.size());
  }
  /// "key 17 holds stamp 4; allowed: absent 5".
  [[nodiscard]] std::string told(std::uint16_t key, std::uint64_t stamp) const;

 private:
  struct State {
    std::uint64_t value;
    std::vector<std::uint32_t> done;  ///< open operations that took effect, ascending
    friend auto operator<=>(const State&, const State&) = default;
  };
  struct Key {
    std::vector<State> states{{absent, {}}};  ///< closed under open operations' effects, sorted
    std::vector<std::uint32_t> open;
    std::vector<std::uint64_t> allowed{absent};
  };

  void open_on(std::uint16_t key, std::uint32_t operation);
  [[nodiscard]] bool close_on(std::uint16_t key, std::uint32_t operation);
  /// Those of its batch that come before it on this key have taken effect: B3 of index.h.
  [[nodiscard]] bool is_its_turn(const Key& of, std::uint32_t operation,
                                 const std::vector<std::uint32_t>& done) const;
  [[nodiscard]] bool effect(std::uint32_t operation, std::uint16_t key, std::uint64_t& value) const;
  void settle(std::uint16_t key);
  /// It answered that it had nothing to do, or no room.
  [[nodiscard]] bool is_refusal(std::uint32_t operation) const;
  void add_unanswered(Key& of, std::uint16_t key, const State& state) const;
  [[nodiscard]] bool take_effect_unanswered(std::uint32_t operation, std::uint16_t key,
                                            std::uint64_t& value) const;
  /// Among the allowed stamps but the lowest.
  [[nodiscard]] bool allows_above(std::uint16_t key, std::uint64_t stamp) const;
  /// "key 17".
  [[nodiscard]] std::string name(std::uint16_t key) const;
  /// "absent, stamp 5": what the key may have held when the operation returned.
  [[nodiscard]] std::string values_of(std::uint16_t key) const;
  [[nodiscard]] std::uint64_t scanned(const Answer& answer, std::uint16_t key) const;

  const std::vector<Operation>& operations_;
  const std::vector<Answer>& answers_;
  Show show_;
  std::vector<Key> keys_;
  std::vector<std::uint64_t> lowest_;  ///< allowed stamp, by key: most have no other
  std::vector<std::uint32_t> open_;
  std::uint64_t digest_ = 0;
};

}  // namespace perdure::crash

#include "platform/model/counters.h"

#include <bit>
#include <type_traits>

namespace perdure::platform {

static_assert(std::is_trivially_copyable_v<Counters> &&
                  sizeof(Counters) % sizeof(std::uint64_t) == 0,
              "since() subtracts word by word");

Counters Counters::since(const Counters& before) const noexcept {
  constexpr std::size_t words = sizeof(Counters) / sizeof(std::uint64_t);
  using Words = std::array<std::uint64_t, words>;
  Words late = std::bit_cast<Words>(*this);
  const Words early = std::bit_cast<Words>(before);
  for (std::size_t i = 0; i < words; ++i) late[i] -= early[i];
  return std::bit_cast<Counters>(late);
}

}  // namespace perdure::platform

// Registration of `list:harris`. See design.md.
#include "lockfree/list/harris_list.h"

namespace perdure::lockfree {
namespace {

struct HarrisTraits {
  using Links = VolatileLinks;
  static constexpr ListKind kind{.mode = "harris", .number = 1, .persistent = false};
};

}  // namespace

PERDURE_REGISTER_INDEX(list_harris, IndexInfo{
                                        .name = "list",
                                        .mode = "harris",
                                        .title = "sorted list (Harris, DISC 2001), volatile",
                                        .index_class = IndexClass::in_memory,
                                        .replaces = false,
                                        .is_linear = true,
                                        .progress = Progress::lock_free,
                                        .options = list_options(),
                                        .create_integer = HarrisList<HarrisTraits>::create,
                                    });

}  // namespace perdure::lockfree

// Registration of `list:nvtraverse`. See design.md.
#include "lockfree/list/harris_list.h"

namespace perdure::lockfree {
namespace {

struct TraversedTraits {
  using Links = TraversedLinks;
  static constexpr ListKind kind{.mode = "nvtraverse", .number = 4, .persistent = true};
};

}  // namespace

PERDURE_REGISTER_INDEX(list_nvtraverse,
                       IndexInfo{
                           .name = "list",
                           .mode = "nvtraverse",
                           .title = "Harris's list by NVTraverse (Friedman et al., PLDI 2020)",

                           .replaces = false,
                           .is_linear = true,
                           .progress = Progress::lock_free,
                           .options = list_options(),
                           .create_integer = HarrisList<TraversedTraits>::create,
                           .recover_integer = HarrisList<TraversedTraits>::recover,
                           .media = media_of_list,
                           .heaps = {HeapKind::slab, HeapKind::dram},
                       });

}  // namespace perdure::lockfree

// Registration of `list:link_and_persist`. See design.md.
#include "lockfree/list/harris_list.h"

namespace perdure::lockfree {
namespace {

struct DirtyTraits {
  using Links = DirtyLinks;
  static constexpr ListKind kind{.mode = "link_and_persist", .number = 3, .persistent = true};
};

}  // namespace

PERDURE_REGISTER_INDEX(list_link_and_persist,
                       IndexInfo{
                           .name = "list",
                           .mode = "link_and_persist",
                           .title = "link-and-persist sorted list (David et al., ATC 2018)",

                           .replaces = false,
                           .is_linear = true,
                           .progress = Progress::lock_free,
                           .options = list_options(),
                           .create_integer = HarrisList<DirtyTraits>::create,
                           .recover_integer = HarrisList<DirtyTraits>::recover,
                           .media = media_of_list,
                           .heaps = {HeapKind::slab, HeapKind::dram},
                       });

}  // namespace perdure::lockfree

// Registration of `list:flit`. See design.md.
#include "lockfree/list/harris_list.h"

namespace perdure::lockfree {
namespace {

struct CountedTraits {
  using Links = CountedLinks;
  static constexpr ListKind kind{.mode = "flit", .number = 5, .persistent = true};
};

}  // namespace

PERDURE_REGISTER_INDEX(list_flit,
                       IndexInfo{
                           .name = "list",
                           .mode = "flit",
                           .title = "Harris's list by FliT and NVTraverse (Wei et al., PPoPP 2022)",

                           .replaces = false,
                           .is_linear = true,
                           .progress = Progress::lock_free,
                           .options = list_options(),
                           .create_integer = HarrisList<CountedTraits>::create,
                           .recover_integer = HarrisList<CountedTraits>::recover,
                           .media = media_of_list,
                           .heaps = {HeapKind::slab, HeapKind::dram},
                       });

}  // namespace perdure::lockfree

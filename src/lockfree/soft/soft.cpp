// Registration of `list:soft`. See design.md.
#include "lockfree/list/soft_list.h"

namespace perdure::lockfree {
namespace {

struct SoftTraits {
  using Heads = OneHead;
  static constexpr ListKind kind{.mode = "soft", .number = 7};
};

}  // namespace

PERDURE_REGISTER_INDEX(list_soft, IndexInfo{
                                      .name = "list",
                                      .mode = "soft",
                                      .title = "SOFT sorted list (Zuriel et al., OOPSLA 2019)",
                                      .replaces = false,
                                      .is_linear = true,
                                      .progress = Progress::lock_free,
                                      .options = list_options(),
                                      .create_integer = SoftList<SoftTraits>::create,
                                      .recover_integer = SoftList<SoftTraits>::recover,
                                      .media = media_of_soft,
                                      .heaps = {HeapKind::slab, HeapKind::dram},
                                  });

}  // namespace perdure::lockfree

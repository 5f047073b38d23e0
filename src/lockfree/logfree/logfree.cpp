// Registration of `list:logfree`. See design.md.
#include "lockfree/list/harris_list.h"

namespace perdure::lockfree {
namespace {

struct LogFreeTraits {
  using Links = LogFreeLinks;
  static constexpr ListKind kind{.mode = "logfree", .number = 2, .persistent = true};
};

}  // namespace

PERDURE_REGISTER_INDEX(list_logfree,
                       IndexInfo{
                           .name = "list",
                           .mode = "logfree",
                           .title = "log-free sorted list for eADR (pmidio, section 6.2)",

                           .replaces = false,
                           .is_linear = true,
                           .needs_eadr = true,
                           .progress = Progress::lock_free,
                           .options = list_options(),
                           .create_integer = HarrisList<LogFreeTraits>::create,
                           .recover_integer = HarrisList<LogFreeTraits>::recover,
                           .media = media_of_list,
                           .heaps = {HeapKind::slab, HeapKind::dram},
                       });

}  // namespace perdure::lockfree

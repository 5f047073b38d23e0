// From a kind of key known at run time to the type that stands for it.
#pragma once

#include "index/index.h"

namespace perdure::testing {

/// Calls `work(IntegerKeys{})`, `work(ByteKeys{})` or `work(SlotKeys{})`.
template <class Work>
auto for_kind(KeyKind kind, Work&& work) {
  return kind == KeyKind::integer ? work(IntegerKeys{})
         : kind == KeyKind::bytes ? work(ByteKeys{})
                                  : work(SlotKeys{});
}

}  // namespace perdure::testing

// From a kind of key known at run time to the type that stands for it.
#pragma once

#include "index/index.h"

namespace perdure::testing {

/// Calls `work(IntegerKeys{})` or `work(ByteKeys{})`.
template <class Work>
auto for_kind(KeyKind kind, Work&& work) {
  return kind == KeyKind::integer ? work(IntegerKeys{}) : work(ByteKeys{});
}

}  // namespace perdure::testing

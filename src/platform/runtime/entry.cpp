// main on a stack of its own: the system puts the first one at a random place inside its page, and
// what simulated threads find there (the state of whoever runs them) would lie in other cache lines
// at every start. The linker's --wrap=main routes the start-up code here.
#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstdio>
#include <cstdlib>

extern "C" int __real_main(int argc, char** argv);

namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr std::size_t stack_bytes = std::size_t{8} << 20;

struct Call {
  int argc;
  char** argv;
  int result;
};

void enter(transfer_t from) {
  auto* const call = static_cast<Call*>(from.data);
  call->result = __real_main(call->argc, call->argv);
  jump_fcontext(from.fctx, nullptr);
}

}  // namespace

extern "C" int __wrap_main(int argc, char** argv) {
  void* const memory = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("perdure: stack");
    return EXIT_FAILURE;
  }
  Call call{argc, argv, 0};
  auto* const top = static_cast<std::byte*>(memory) + stack_bytes;
  jump_fcontext(make_fcontext(top, stack_bytes, enter), &call);
  return call.result;
}

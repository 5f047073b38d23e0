#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>

#include "cli/commands.h"
#include "driver/interrupt.h"

namespace perdure::cli {
namespace {

// No memory is asked for: there may be none.
[[noreturn]] void end(const char* what, const char* remedy, int exit_code) noexcept {
  std::array<char, 512> line{};
  std::snprintf(line.data(), line.size(), "perdure: %s%s", what, remedy);
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::string_view text(line.data());
  if (text.size() == line.size() - 1) text.remove_suffix(1);
  line[text.size()] = '\n';
  driver::end_at_once({line.data(), text.size() + 1}, exit_code);
}

// Where the exception was thrown: its threads and their memory are all still there.
[[noreturn]] void explain() noexcept {
  const std::exception_ptr thrown = std::current_exception();
  if (!thrown) end("the program ended in a place that it cannot leave", "", exit_failed);
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    end("the system gives no more memory",
        "; raise the limit (ulimit -v), or give fewer --records or --threads", exit_usage);
  } catch (const std::system_error& error) {
    end(error.what(),
        ": the system refused; raise its limits (ulimit -u, -v, -n, -f), or give fewer --threads",
        exit_usage);
  } catch (const std::exception& error) {
    end(error.what(), ": this ended the run; an index or a library threw it", exit_failed);
  } catch (...) {
    end("an index or a library threw what nothing catches", "", exit_failed);
  }
}

}  // namespace

void explain_sudden_ends() noexcept {
  std::set_terminate(explain);
  signal(SIGXFSZ, SIG_IGN);  // writing fails instead, and says why
}

}  // namespace perdure::cli

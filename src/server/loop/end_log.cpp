#include "server/loop/end_log.h"

#include <algorithm>
#include <cstdio>

namespace perdure::server::loop {

std::string EndLog::text_at(Time now, std::string_view where, std::string_view reason) {
  if (lines_ == 0 || now - second_began_ >= std::chrono::seconds(1)) {
    second_began_ = now;
    lines_ = 0;
  }
  if (lines_ == lines_per_second) {
    ++left_out_;
    return {};
  }
  ++lines_;
  std::string text;
  if (left_out_ != 0)
    text = "perdure: " + std::to_string(left_out_) + " more connections ended for a reason\n";
  left_out_ = 0;
  std::string line = "perdure: ";
  line.append(where).append(": ").append(reason);
  std::ranges::replace_if(
      line, [](char c) { return c < ' ' && c >= 0; }, ' ');
  return text + line + "\n";
}

void EndLog::note(std::string_view where, std::string_view reason) {
  const std::lock_guard lock(mutex_);
  const std::string text = text_at(std::chrono::steady_clock::now(), where, reason);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace perdure::server::loop

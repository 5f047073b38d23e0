#include "crash/places.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "platform/runtime/symbols.h"

namespace perdure::crash {
namespace {

using platform::runtime::without_arguments;

struct Frame {
  std::string function;
  std::string file;
  unsigned line = 0;
};

std::string short_path(const std::string& path) {
  std::size_t best = std::string::npos;
  for (const char* folder : {"/src/", "/examples/", "/tests/"}) {
    const std::size_t at = path.rfind(folder);
    if (at != std::string::npos && (best == std::string::npos || at > best)) best = at;
  }
  return best == std::string::npos ? path : path.substr(best + 1);
}

/// True for code that only acts for its caller.
bool is_carrier(const Frame& frame) {
  return frame.file.find("src/pm/") != std::string::npos || frame.file.starts_with("/usr/") ||
         frame.file.find("/c++/") != std::string::npos || frame.file.starts_with("??") ||
         frame.file.find("src/platform/") != std::string::npos;
}

/// A lock of the facade: its words mean nothing after a restart.
bool is_lock(const Frame& frame) {
  const std::size_t at = frame.file.find("src/pm/");
  return at != std::string::npos && frame.file.find("lock", at) != std::string::npos;
}

/// The load address of the object that holds `pc`, and its path.
bool object_of(const void* pc, std::string& path, std::uintptr_t& base) {
  Dl_info info{};
  if (dladdr(pc, &info) == 0 || info.dli_fname == nullptr) return false;
  path = info.dli_fname;
  base = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  if (path.find('/') == std::string::npos) path = "/proc/self/exe";
  return true;
}

Place place_by_symbol(const void* pc) {
  Place place;
  Dl_info info{};
  if (dladdr(pc, &info) == 0) return place;
  if (info.dli_sname == nullptr) {  // perhaps in a stripped library
    const std::string file = info.dli_fname == nullptr ? "" : info.dli_fname;
    if (file.find(".so") != std::string::npos)
      place.function = std::filesystem::path(file).filename();
    return place;
  }
  int status = 0;
  char* const plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  place.function = without_arguments(status == 0 ? plain : info.dli_sname);
  std::free(plain);
  return place;
}

/// Runs addr2line on one object; the answer per address, innermost frame first.
std::vector<std::vector<Frame>> ask(const std::string& object,
                                    const std::vector<std::uintptr_t>& addresses) {
  std::string resolved = object;
  if (object == "/proc/self/exe") {
    char buffer[4096];
    const ssize_t length = readlink("/proc/self/exe", buffer, sizeof buffer);
    if (length > 0) resolved.assign(buffer, static_cast<std::size_t>(length));
  }
  if (resolved.find('\'') != std::string::npos) return {};
  std::string command = "addr2line -afiC -e '" + resolved + "'";
  char text[32];
  for (const std::uintptr_t address : addresses) {
    std::snprintf(text, sizeof text, " 0x%lx", static_cast<unsigned long>(address));
    command += text;
  }
  command += " 2>/dev/null";
  std::vector<std::vector<Frame>> answers;
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return answers;
  char* line = nullptr;
  std::size_t room = 0;
  std::string function;
  bool is_function = true;
  for (ssize_t length = 0; (length = getline(&line, &room, pipe)) > 0;) {
    std::string words(line, static_cast<std::size_t>(length - 1));
    if (words.starts_with("0x")) {
      answers.emplace_back();
      is_function = true;
      continue;
    }
    if (answers.empty()) break;
    if (is_function) {
      function = words;
    } else {
      words = words.substr(0, words.find(" (discriminator"));
      const std::size_t colon = words.rfind(':');
      Frame frame{without_arguments(function), words.substr(0, colon), 0};
      if (colon != std::string::npos)
        frame.line = static_cast<unsigned>(std::strtoul(words.c_str() + colon + 1, nullptr, 10));
      answers.back().push_back(std::move(frame));
    }
    is_function = !is_function;
  }
  std::free(line);
  pclose(pipe);
  return answers;
}

}  // namespace

std::string Place::show() const {
  if (line == 0) return function.empty() ? "an unknown place" : "in " + function;
  return file + ":" + std::to_string(line) + (function.empty() ? "" : " in " + function);
}

std::string Place::show_line() const {
  return line == 0 ? show() : file + ":" + std::to_string(line);
}

const Place& Places::of(const void* pc) {
  const auto at = known_.find(pc);
  if (at != known_.end()) return at->second;
  prepare(std::vector{pc});
  return known_[pc];
}

void Places::prepare(const Trace& trace) {
  std::vector<const void*> pcs;
  for (const Event& event : trace) pcs.push_back(event.pc);
  prepare(pcs);
}

void Places::prepare(const std::vector<const void*>& pcs) {
  std::map<std::string, std::vector<std::pair<const void*, std::uintptr_t>>> objects;
  const std::set<const void*> wanted(pcs.begin(), pcs.end());
  for (const void* const pc : wanted) {
    if (pc == nullptr || known_.contains(pc)) continue;
    known_[pc] = place_by_symbol(pc);
    std::string path;
    std::uintptr_t base = 0;
    if (!object_of(pc, path, base)) continue;
    // A return address: the call is the instruction before it. Position-independent programs count
    // from their load address, others from zero.
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(pc) - 1;
    objects[path].emplace_back(pc, base > 0x400000 ? address - base : address);
  }
  constexpr std::size_t at_once = 256;
  for (const auto& [path, list] : objects)
    for (std::size_t begin = 0; begin < list.size(); begin += at_once) {
      const std::size_t end = std::min(list.size(), begin + at_once);
      std::vector<std::uintptr_t> addresses;
      for (std::size_t i = begin; i < end; ++i) addresses.push_back(list[i].second);
      const auto answers = ask(path, addresses);
      for (std::size_t i = begin; i < end && i - begin < answers.size(); ++i) {
        const auto& frames = answers[i - begin];
        const auto found =
            std::ranges::find_if(frames, [](const Frame& f) { return !is_carrier(f); });
        if (found == frames.end() || found->line == 0) continue;
        const bool lock = std::any_of(frames.begin(), found, is_lock);
        known_[list[i].first] = {found->function, short_path(found->file), found->line, lock};
      }
    }
}

}  // namespace perdure::crash

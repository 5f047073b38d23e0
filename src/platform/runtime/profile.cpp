#include "platform/runtime/profile.h"

#include <algorithm>
#include <map>
#include <utility>

#include "platform/runtime/symbols.h"

namespace perdure::platform::runtime {

void Profile::charge(SimulatedThread& thread) noexcept {
  if (thread.clock > thread.node_since) thread.node->time += thread.clock - thread.node_since;
  thread.node_since = thread.clock;
}

void Profile::begin(SimulatedThread& thread) {
  thread.node = &root_;
  thread.node_since = thread.clock;
}

void Profile::end(SimulatedThread& thread) {
  if (thread.node == nullptr) return;
  charge(thread);
  thread.node = nullptr;
}

void Profile::enter(SimulatedThread& thread, const void* site) {
  if (thread.node == nullptr) return;
  charge(thread);
  auto& children = thread.node->children;
  auto found = std::ranges::find_if(children, [&](const auto& c) { return c->site == site; });
  if (found == children.end()) {
    auto made = std::make_unique<CallNode>();
    made->site = site;
    made->parent = thread.node;
    children.push_back(std::move(made));
    found = children.end() - 1;
  }
  // The busiest first: the next search is short.
  if (found != children.begin()) std::iter_swap(found, found - 1), --found;
  thread.node = found->get();
}

void Profile::leave(SimulatedThread& thread) {
  if (thread.node == nullptr) return;
  charge(thread);
  if (thread.node->parent != nullptr) thread.node = thread.node->parent;
}

void Profile::unwind(SimulatedThread& thread, CallNode* node) {
  if (thread.node == nullptr || node == nullptr) return;
  charge(thread);
  thread.node = node;
}

std::string Profile::folded() const {
  std::map<const void*, std::string> names;
  std::map<std::string, Time> lines;
  const auto walk = [&](const auto& self, const CallNode& node, const std::string& path) -> void {
    if (node.time != 0) lines[path.empty() ? "(harness)" : path] += node.time;
    for (const auto& child : node.children) {
      std::string& name = names[child->site];
      if (name.empty()) {
        name = Symbols::get().name_of(child->site);
        std::ranges::replace(name, ';', ':');  // separates stacks
      }
      self(self, *child, path.empty() ? name : path + ";" + name);
    }
  };
  walk(walk, root_, "");
  std::string text;
  for (const auto& [path, time] : lines) text += path + " " + std::to_string(time) + "\n";
  return text;
}

}  // namespace perdure::platform::runtime

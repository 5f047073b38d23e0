#include "crash/names.h"

#include <algorithm>
#include <cstdio>

#include "crash/probe.h"

namespace perdure::crash {
namespace {

std::string stamp_text(std::uint64_t stamp) {
  return stamp == absent ? "nothing" : "value " + std::to_string(stamp);
}

/// "lock" as a part of its own of a name, not in "block".
bool says_lock(const std::string& name) {
  for (std::size_t at = name.find("lock"); at != std::string::npos; at = name.find("lock", at + 1))
    if (at == 0 || (name[at - 1] != 'b' && name[at - 1] != 'c')) return true;
  return false;
}

}  // namespace

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string show(const Operation& operation, const Vocabulary& vocabulary) {
  std::string text = name_of(operation.action);
  if (operation.action == Action::create) return text;
  if (operation.action == Action::load)
    return text + " " + std::to_string(operation.count) + " keys from " + vocabulary.show(0) +
           " on";
  if (operation.action == Action::pop) return text;
  if (operation.action == Action::push) return text + " payload " + std::to_string(operation.stamp);
  text += " key " + vocabulary.show(operation.key);
  if (operation.action == Action::scan) return text + ", " + std::to_string(operation.count);
  if (operation.action != Action::lookup && operation.action != Action::remove)
    text += " := value " + std::to_string(operation.stamp);
  return text;
}

std::string show(const Operation& operation, const Answer& answer) {
  if (!answer.returned) return "in flight";
  std::string text = perdure::name_of(answer.outcome);
  if (operation.action == Action::lookup && answer.outcome == Outcome::ok)
    text += ", " + stamp_text(answer.stamp);
  if (operation.action == Action::pop && answer.outcome == Outcome::ok)
    text += answer.stamp == bad_stamp ? ", a torn payload" : ", " + std::to_string(answer.stamp);
  if (operation.action == Action::scan) text = std::to_string(answer.found.size()) + " records";
  return text;
}

Names::Names(const Case& what, const Recorded& run, Places& places)
    : places_(places),
      vocabulary_(what.program),
      structures_(what.subject.media()),
      layout_(structures_, run.blocks) {
  places.prepare(run.trace);
}

std::string Names::at(std::uint64_t offset) const {
  const std::string name = layout_.name_of(offset);
  if (!name.empty()) return name;
  return "line " + std::to_string(offset / line_bytes) + " + " +
         std::to_string(offset % line_bytes);
}

std::string Names::store(const Event& event) const {
  const std::string name = layout_.name_of(event.at);
  return (name.empty() ? "" : name + ", ") + "line " + std::to_string(event.at / line_bytes) +
         " + " + std::to_string(event.at % line_bytes) + ", " + std::to_string(event.size) +
         (event.size == 1 ? " byte = " : " bytes = ") + hex(event.value) + "  at " +
         place(event).show();
}

bool Names::is_lock(const Event& event) const {
  const Place& from = place(event);
  if (from.lock) return true;
  const std::string name = layout_.name_of(event.at);
  const std::size_t dot = name.find('.');
  return dot != std::string::npos && says_lock(name.substr(dot));
}

std::optional<std::uint32_t> Names::operation_of(const Recorded& run, std::uint32_t event) const {
  if (event >= run.recovers_from && event < run.recovers_to) return std::nullopt;
  const std::uint8_t thread = run.trace[event].thread;
  for (std::uint32_t i = event + 1; i-- > run.recovers_to;) {
    const Event& each = run.trace[i];
    if (each.thread != thread) continue;
    if (each.kind == Event::Kind::call || (i == event && each.kind == Event::Kind::ret))
      return each.at;
    if (each.kind == Event::Kind::ret) return std::nullopt;
  }
  return std::nullopt;
}

std::string Names::structure(std::uint64_t block_bytes) const {
  std::string name;
  for (const MediaStruct& each : structures_)
    if (Heap::block_bytes(each.bytes) == block_bytes)
      name += (name.empty() ? "" : " or ") + each.name;
  return name.empty() ? "block" : name;
}

}  // namespace perdure::crash

// Replay files: JSON, versioned. A file is input: every field is checked.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "crash/report.h"

namespace perdure::crash {
namespace {

Json json_of(const Operation& operation) {
  return {{"action", name_of(operation.action)},
          {"thread", operation.thread},
          {"key", operation.key},
          {"count", operation.count},
          {"stamp", operation.stamp},
          {"batch", operation.batch}};
}

/// Reads fields and remembers the first that is wrong.
class Reader {
 public:
  Reader(const Json& from, std::string where, std::string& wrong)
      : from_(from), where_(std::move(where)), wrong_(wrong) {
    if (!from_.is_object()) fail("", "is no object");
  }

  std::uint64_t number(const char* name, std::uint64_t least, std::uint64_t most) {
    const Json* const field = find(name);
    if (field == nullptr) return least;
    if (!field->is_number_unsigned()) return fail(name, "is no whole number"), least;
    const auto value = field->get<std::uint64_t>();
    if (value < least || value > most)
      return fail(name, "is not in " + std::to_string(least) + " .. " + std::to_string(most)),
             least;
    return value;
  }
  std::string text(const char* name) {
    const Json* const field = find(name);
    if (field == nullptr) return {};
    if (!field->is_string()) return fail(name, "is no text"), std::string();
    return field->get<std::string>();
  }
  std::size_t one_of(const char* name, std::span<const char* const> names) {
    const std::string given = text(name);
    for (std::size_t i = 0; i < names.size(); ++i)
      if (given == names[i]) return i;
    fail(name, "is unknown");
    return 0;
  }
  const Json& list(const char* name, std::size_t most) {
    static const Json none = Json::array();
    const Json* const field = find(name);
    if (field == nullptr) return none;
    if (!field->is_array() || field->size() > most)
      return fail(name, "is no list, or too long"), none;
    return *field;
  }
  const Json& object(const char* name) {
    static const Json none = Json::object();
    const Json* const field = find(name);
    if (field == nullptr) return none;
    if (!field->is_object()) return fail(name, "is no object"), none;
    return *field;
  }

 private:
  const Json* find(const char* name) {
    if (!from_.is_object()) return nullptr;
    const auto at = from_.find(name);
    if (at == from_.end()) return fail(name, "is missing"), nullptr;
    return &*at;
  }
  void fail(const char* name, const std::string& why) {
    if (wrong_.empty()) wrong_ = "field '" + where_ + name + "' " + why;
  }

  const Json& from_;
  std::string where_;
  std::string& wrong_;
};

Operation read_operation(const Json& from, std::uint64_t version, const Program& program,
                         std::string& wrong) {
  Reader reader(from, "operation.", wrong);
  Operation operation;
  operation.action = static_cast<Action>(reader.one_of("action", action_names));
  if (operation.action == Action::create && wrong.empty()) wrong = "an operation 'create'";
  operation.thread = static_cast<std::uint8_t>(reader.number("thread", 0, program.threads - 1));
  operation.key =
      static_cast<std::uint16_t>(reader.number("key", 0, std::uint64_t{program.keys} - 1));
  operation.count = static_cast<std::uint16_t>(reader.number("count", 0, 0xffff));
  if (operation.action == Action::load && operation.count > program.keys && wrong.empty())
    wrong = "field 'operation.count' loads more keys than there are";
  operation.stamp = reader.number("stamp", 0, bad_stamp - 1);
  if (version >= 6) operation.batch = static_cast<std::uint16_t>(reader.number("batch", 0, 0xffff));
  if (operation.batch != 0 && !has_key(operation.action) && wrong.empty())
    wrong = "field 'operation.batch' of what is in no batch";
  return operation;
}

void read_case(Reader& reader, std::uint64_t version, Case& what, std::string& wrong) {
  Program& program = what.program;
  constexpr const char* kinds[] = {"integer", "bytes", "slots"};
  static_assert(static_cast<std::size_t>(KeyKind::slots) == 2);
  constexpr const char* domains[] = {"adr", "eadr"};
  constexpr const char* heaps[] = {"pmdk", "slab"};
  static_assert(static_cast<std::size_t>(HeapKind::slab) == 1);
  if (version >= 3) what.transactions = reader.number("transactions", 0, 1) != 0;
  if (version >= 4) what.cut = reader.number("first_cut", 0, ~std::uint64_t{0});
  if (version >= 7) what.only_threads = reader.number("only_threads", 0, 1) != 0;
  if (version >= 3) what.subject.heap = static_cast<HeapKind>(reader.one_of("heap", heaps));
  if (what.cut != 0 && what.subject.heap == HeapKind::pmdk && wrong.empty())
    wrong = "field 'first_cut' needs heap slab";
  program.key_kind = static_cast<KeyKind>(reader.one_of("key_kind", kinds));
  what.domain = static_cast<Domain>(reader.one_of("domain", domains));
  what.bounds.reorder = reader.number("reorder", 0, 1) != 0;
  program.threads = static_cast<unsigned>(reader.number("threads", 1, 8));
  program.keys = static_cast<std::uint16_t>(reader.number("keys", 1, 4096));
  program.universe = reader.number("universe", 0, ~std::uint64_t{0});
  what.subject.pool_bytes =
      reader.number("pool_bytes", Pool::min_image_bytes, 256 << 20) / 4096 * 4096;
  constexpr std::size_t most_operations = 100'000;
  for (const Json& each : reader.list("preload", most_operations))
    program.preload.push_back(read_operation(each, version, program, wrong));
  for (const Json& each : reader.list("operations", most_operations))
    program.operations.push_back(read_operation(each, version, program, wrong));
  Reader schedule(reader.object("schedule"), "schedule.", wrong);
  what.schedule.first = static_cast<std::uint8_t>(schedule.number("first", 0, 7));
  if (version >= 3)
    what.schedule.software = static_cast<std::uint8_t>(schedule.number("software", 0, 255));
  if (version >= 4)
    what.schedule.pauses =
        static_cast<std::uint16_t>(schedule.number("pauses", 1, most_pauses_in_a_row));
  for (const Json& each : schedule.list("preemptions", most_operations)) {
    Reader one(each, "schedule.preemptions.", wrong);
    what.schedule.preemptions.push_back(
        {one.number("step", 0, ~std::uint64_t{0}),
         static_cast<std::uint8_t>(one.number("thread", 0, Preemption::demote))});
  }
  for (const Json& each : schedule.list("order", program.threads)) {
    const bool fits = each.is_number_unsigned() && each.get<std::uint64_t>() < program.threads;
    if (!fits && wrong.empty()) wrong = "field 'schedule.order' holds what is no thread";
    if (fits) what.schedule.order.push_back(each.get<std::uint8_t>());
  }
}

}  // namespace

Json write_replay(const Case& what, const Verdict& verdict) {
  const Program& program = what.program;
  Json options = Json::object();
  for (const auto& [name, value] : what.subject.options.choices()) options[name] = value;
  Json preemptions = Json::array();
  for (const Preemption& each : what.schedule.preemptions)
    preemptions.push_back({{"step", each.step}, {"thread", each.thread}});
  Json preload = Json::array();
  for (const Operation& each : program.preload) preload.push_back(json_of(each));
  Json operations = Json::array();
  for (const Operation& each : program.operations) operations.push_back(json_of(each));
  Json lines = Json::array();
  if (verdict.violation)
    for (const LineState& line : verdict.violation->lines)
      lines.push_back({{"line", line.line}, {"choice", line.choice}, {"choices", line.choices}});
  return {{"version", replay_version},
          {"index", what.subject.full_name()},
          {"options", options},
          {"heap", perdure::name_of(what.subject.heap)},
          {"pool_bytes", what.subject.pool_bytes},
          {"key_kind", perdure::name_of(program.key_kind)},
          {"domain", name_of(what.domain)},
          {"reorder", what.bounds.reorder ? 1 : 0},
          {"transactions", what.transactions ? 1 : 0},
          {"first_cut", what.cut},
          {"only_threads", what.only_threads ? 1 : 0},
          {"threads", program.threads},
          {"keys", program.keys},
          {"universe", program.universe},
          {"preload", preload},
          {"operations", operations},
          {"schedule",
           {{"first", what.schedule.first},
            {"software", what.schedule.software},
            {"pauses", what.schedule.pauses},
            {"preemptions", preemptions},
            {"order", what.schedule.order}}},
          {"trace_digest", verdict.trace_digest},
          {"cut",
           {{"event", verdict.violation ? verdict.violation->event : 0},
            {"oracle", verdict.violation ? name_of(verdict.violation->oracle) : ""},
            {"what", verdict.violation ? verdict.violation->what : ""},
            {"lines", lines}}}};
}

Result<Replay> read_replay(const std::string& text, const std::string& where) {
  const Json from = Json::parse(text, nullptr, false);
  const char* const remedy = "give a file that `crash --out` wrote";
  if (from.is_discarded() || !from.is_object())
    return Error{ErrorCode::bad_input, "no JSON object", where, remedy};
  std::string wrong;
  Reader reader(from, "", wrong);
  const std::uint64_t version = reader.number("version", 1, ~std::uint64_t{0});
  if (!wrong.empty()) return Error{ErrorCode::bad_input, wrong, where, remedy};
  if (version > replay_version)
    return Error{ErrorCode::newer, "replay version " + std::to_string(version), where,
                 "use a newer perdure"};
  Replay replay;
  const auto found = find_subject(reader.text("index"));
  if (!found) return found.error();
  replay.what.subject = *found;
  std::vector<std::string> pairs;
  for (const auto& [name, value] : reader.object("options").items()) {
    if (!value.is_number_unsigned())
      return Error{ErrorCode::bad_input, "option '" + name + "' is no whole number", where, remedy};
    pairs.push_back(name + "=" + std::to_string(value.get<std::uint64_t>()));
  }
  auto options = found->parse(pairs);
  if (!options) return options.error();
  replay.what.subject.options = *options;
  read_case(reader, version, replay.what, wrong);
  replay.trace_digest = reader.number("trace_digest", 0, ~std::uint64_t{0});
  Reader cut(reader.object("cut"), "cut.", wrong);
  replay.event = static_cast<std::uint32_t>(cut.number("event", 0, 0xffffffffU));
  static_cast<void>(cut.text("oracle"));  // for people
  for (const Json& each : cut.list("lines", 100'000)) {
    Reader one(each, "cut.lines.", wrong);
    LineState line{static_cast<LineNumber>(one.number("line", 0, 0xffffffffU)),
                   static_cast<std::uint32_t>(one.number("choice", 0, 0xffffffffU)),
                   static_cast<std::uint32_t>(one.number("choices", 0, 0xffffffffU)),
                   {}};
    replay.lines.push_back(line);
  }
  if (!wrong.empty()) return Error{ErrorCode::bad_input, wrong, where, remedy};
  return replay;
}

}  // namespace perdure::crash

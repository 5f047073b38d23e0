#include "pibench/plugin_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <limits>
#include <new>
#include <string>
#include <system_error>

namespace perdure {
namespace {

namespace fs = std::filesystem;

std::string one_line(const char* text) {
  std::string line = text == nullptr ? "unknown reason" : text;
  std::ranges::replace(line, '\n', ' ');
  return line;
}

Result<void> check(const PluginOptions& options) {
  std::error_code failure;
  if (!fs::exists(options.library, failure))
    return Error{ErrorCode::not_found, "no such plugin", options.library,
                 "name the wrapper's shared object"};
  const bool is_folder = fs::is_directory(options.pool_path, failure);
  if (is_folder && !fs::is_empty(options.pool_path, failure))
    return Error{ErrorCode::exists, "a wrapper makes its files in an empty directory only",
                 options.pool_path, "empty it yourself, or name another"};
  if (!options.pool_path.empty() && !is_folder && fs::exists(options.pool_path, failure))
    return Error{ErrorCode::exists, "wrappers create their pool themselves", options.pool_path,
                 "remove it, or name another path"};
  if (options.pool_path.ends_with('/') && !is_folder)
    return Error{ErrorCode::not_found, "there is no such directory", options.pool_path,
                 "make it first: a wrapper may want one that exists"};
  if (options.key_bytes == 0 || options.key_bytes > max_plugin_key_bytes)
    return Error{ErrorCode::usage, "a wrapper's keys have one length of 1 .. 128 B", "--plugin",
                 "choose keys of one such length"};
  if (options.value_bytes == 0 || options.value_bytes > max_plugin_value_bytes)
    return Error{ErrorCode::usage, "a wrapper's values have one length of 1 .. 1400 B", "--plugin",
                 "choose values of one such length"};
  return {};
}

}  // namespace

Result<std::unique_ptr<PluginLibrary>> PluginLibrary::load(const PluginOptions& options) {
  if (auto checked = check(options); !checked) return checked.error();
  std::error_code failure;
  // A bare name would make dlopen search elsewhere.
  const std::string library = fs::absolute(options.library, failure).string();
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr)
    return Error{ErrorCode::unsupported, "cannot load the plugin: " + one_line(dlerror()),
                 options.library,
                 "check that it is a shared object and that its libraries are there"};
  void* const symbol = dlsym(handle, "create_tree");
  if (symbol == nullptr)
    return Error{ErrorCode::foreign, "exports no create_tree", options.library,
                 "name a PiBench wrapper"};
  std::unique_ptr<PluginLibrary> loaded(new PluginLibrary(options));
  const auto create = reinterpret_cast<tree_api* (*)(const tree_options_t&)>(symbol);
  if (auto created = loaded->create(create); !created) return created.error();
  return loaded;
}

Result<void> PluginLibrary::create(tree_api* (*create)(const tree_options_t&)) {
  // Never destroyed before the tree: wrappers keep pointers into it.
  auto* const seen = new (foreign_options_->room.data()) tree_options_t;
  seen->key_size = options_.key_bytes;
  seen->value_size = options_.value_bytes;
  seen->pool_path = options_.pool_path;
  seen->pool_size = options_.pool_bytes;
  seen->num_threads = options_.threads;
  std::string reason = "create_tree returned null";
  try {
    tree_ = create(*seen);
  } catch (const std::exception& exception) {
    reason = "create_tree threw: " + one_line(exception.what());
  } catch (...) {
    reason = "create_tree threw";
  }
  if (tree_ != nullptr) return {};
  return Error{ErrorCode::failed, reason, options_.library,
               "check the lengths of keys and values and the pool's size; some wrappers want as "
               "--pool a directory that exists, others a file that does not"};
}

PluginLibrary::~PluginLibrary() {
  try {
    delete tree_;
  } catch (...) {
    count(exceptions_);
  }
  std::launder(reinterpret_cast<tree_options_t*>(foreign_options_->room.data()))->~tree_options_t();
}

bool PluginLibrary::Buffers::guards_hold(std::size_t value_bytes) const noexcept {
  static constexpr auto intact = [] {
    std::array<char, guard_bytes> guard{};
    guard.fill(guard_pattern);
    return guard;
  }();
  const char* const after = found.data() + guard_bytes + value_bytes;
  return std::memcmp(found.data(), intact.data(), guard_bytes) == 0 &&
         std::memcmp(after, intact.data(), guard_bytes) == 0;
}

// The slot's owner alone makes and uses its buffers.
PluginLibrary::Buffers& PluginLibrary::mine() {
  std::unique_ptr<Buffers>& buffers = buffers_[pm::thread_slot()];
  if (buffers == nullptr) buffers = std::make_unique<Buffers>();
  return *buffers;
}

template <class Call>
PluginLibrary::Answer PluginLibrary::guarded(Call&& call) noexcept {
  try {
    return call() ? Answer::yes : Answer::no;
  } catch (...) {
    count(exceptions_);  // U2
    return Answer::broken;
  }
}

PluginLibrary::Answer PluginLibrary::find(std::string_view key, std::string_view& value) {
  Buffers& buffers = mine();
  std::memcpy(buffers.key.data(), key.data(), key.size());
  char* const out = buffers.value();
  std::memset(out, guard_pattern, options_.value_bytes);  // no false hit repeats the last answer
  const Answer answer = guarded([&] { return tree_->find(buffers.key.data(), key.size(), out); });
  value = {out, options_.value_bytes};
  if (buffers.guards_hold(options_.value_bytes)) return answer;
  count(overruns_);  // U1
  buffers.found.fill(guard_pattern);
  return Answer::broken;
}

PluginLibrary::Answer PluginLibrary::insert(std::string_view key, std::string_view value) {
  Buffers& buffers = mine();
  std::memcpy(buffers.key.data(), key.data(), key.size());
  std::memcpy(buffers.input.data(), value.data(), value.size());
  const Answer answer = guarded([&] {
    return tree_->insert(buffers.key.data(), key.size(), buffers.input.data(), value.size());
  });
  if (answer == Answer::yes) buffers.records.fetch_add(1, std::memory_order_relaxed);
  return answer;
}

PluginLibrary::Answer PluginLibrary::update(std::string_view key, std::string_view value) {
  Buffers& buffers = mine();
  std::memcpy(buffers.key.data(), key.data(), key.size());
  std::memcpy(buffers.input.data(), value.data(), value.size());
  return guarded([&] {
    return tree_->update(buffers.key.data(), key.size(), buffers.input.data(), value.size());
  });
}

PluginLibrary::Answer PluginLibrary::remove(std::string_view key) {
  Buffers& buffers = mine();
  std::memcpy(buffers.key.data(), key.data(), key.size());
  const Answer answer = guarded([&] { return tree_->remove(buffers.key.data(), key.size()); });
  if (answer == Answer::yes) buffers.records.fetch_sub(1, std::memory_order_relaxed);
  return answer;
}

std::string_view PluginLibrary::scan(std::string_view key, std::size_t count,
                                     std::size_t& claimed) {
  Buffers& buffers = mine();
  std::memcpy(buffers.key.data(), key.data(), key.size());
  const auto asked =
      static_cast<int>(std::min(count, static_cast<std::size_t>(std::numeric_limits<int>::max())));
  char* records = nullptr;
  int returned = 0;
  const Answer answer = guarded([&] {
    returned = tree_->scan(buffers.key.data(), key.size(), asked, records);
    return true;
  });
  if (answer == Answer::broken) return {};
  if (returned < 0 || returned > asked) {
    count_impossible_scan();  // U3
    returned = std::clamp(returned, 0, asked);
  }
  claimed = static_cast<std::size_t>(returned);
  if (records == nullptr) {
    PluginLibrary::count(returned > 0 ? scans_without_records_ : scans_of_nothing_);
    return {};
  }
  return {records, static_cast<std::size_t>(returned) * record_bytes()};
}

PluginViolations PluginLibrary::violations() const noexcept {
  return {overruns_.load(), exceptions_.load(), impossible_scans_.load(),
          scans_without_records_.load(), scans_of_nothing_.load()};
}

std::uint64_t PluginLibrary::claimed_records() const noexcept {
  std::int64_t records = 0;
  for (const auto& buffers : buffers_)
    if (buffers != nullptr) records += buffers->records.load(std::memory_order_relaxed);
  return static_cast<std::uint64_t>(std::max<std::int64_t>(records, 0));
}

}  // namespace perdure

#include "index/reference/engine_files.h"

#include <algorithm>
#include <array>
#include <span>

namespace perdure {
namespace {

/// Names of one form: `before`, a number where there is one, `after`.
struct NameForm {
  std::string_view before;
  bool number = false;
  std::string_view after{};

  [[nodiscard]] bool fits(std::string_view name) const {
    if (!name.starts_with(before) || !name.substr(before.size()).ends_with(after)) return false;
    const auto middle = name.substr(before.size(), name.size() - before.size() - after.size());
    if (!number) return middle.empty();
    return !middle.empty() &&
           std::ranges::all_of(middle, [](char c) { return c >= '0' && c <= '9'; });
  }
};

struct FolderFiles {
  std::string_view engine;
  std::string_view folder;
  std::span<const NameForm> forms;
};

constexpr NameForm lmdb_files[] = {{"data.mdb"}, {"lock.mdb"}};
constexpr NameForm rocksdb_top[] = {{"bulk.sst"}};
// Files on their way out carry ".trash" (its SstFileManager), those on their way in ".dbtmp".
constexpr NameForm rocksdb_files[] = {
    {"CURRENT"},
    {"IDENTITY"},
    {"LOCK"},
    {"LOG"},
    {"LOG.old.", true},
    {"MANIFEST-", true},
    {"OPTIONS-", true},
    {"OPTIONS-", true, ".dbtmp"},
    {"", true, ".dbtmp"},
    {"", true, ".log"},
    {"", true, ".sst"},
    {"", true, ".blob"},
    {"", true, ".log.trash"},
    {"", true, ".sst.trash"},
    {"", true, ".blob.trash"},
};
constexpr FolderFiles all_files[] = {
    {"lmdb", "", lmdb_files},
    {"rocksdb", "", rocksdb_top},
    {"rocksdb", "db", rocksdb_files},
};

constexpr std::string_view mark_before = "perdure on-disk index, layout 1, engine ";

}  // namespace

std::string engine_mark_text(std::string_view engine) {
  return std::string(mark_before) + std::string(engine) + "\n";
}

std::string engine_of_mark(std::string_view text) {
  for (const FolderFiles& files : all_files)
    if (text == engine_mark_text(files.engine)) return std::string(files.engine);
  return {};
}

bool is_engine_file(std::string_view engine, std::string_view folder, std::string_view name) {
  return std::ranges::any_of(all_files, [&](const FolderFiles& files) {
    return files.engine == engine && files.folder == folder &&
           std::ranges::any_of(files.forms, [&](const NameForm& form) { return form.fits(name); });
  });
}

bool is_engine_folder(std::string_view engine, std::string_view name) {
  return !name.empty() && std::ranges::any_of(all_files, [&](const FolderFiles& files) {
    return files.engine == engine && files.folder == name;
  });
}

}  // namespace perdure

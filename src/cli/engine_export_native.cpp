#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/engine_export.h"
#include "cli/engine_pool.h"
#include "cli/flags.h"
#include "core/output_file.h"
#include "server/redis/store_key_values.h"

namespace perdure::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t batch_documents = 1000;
constexpr std::size_t batch_bytes = 16U << 20;

/// What was written, or left out because it is corrupt.
struct Exported {
  std::uint64_t documents = 0;
  std::uint64_t collections = 0;
  std::uint64_t values = 0;
  std::uint64_t corrupt = 0;
};

/// A name as mongodump writes it into a path: what a path takes for its own is %2F.
std::string file_name(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.' ||
                          static_cast<unsigned char>(c) >= 128;
    constexpr const char* digits = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    if (is_plain)
      text += c;
    else
      text += {'%', digits[byte / 16], digits[byte % 16]};
  }
  return text;
}

/// mongorestore makes the indexes by it.
std::string metadata_of(const engine::CollectionSummary& collection, const std::string& name) {
  using Json = nlohmann::ordered_json;
  const auto index = [](const std::string& field, int order, const std::string& index_name) {
    return Json{{"v", {{"$numberInt", "2"}}},
                {"key", {{field, {{"$numberInt", std::to_string(order)}}}}},
                {"name", index_name}};
  };
  Json indexes = Json::array({index("_id", 1, "_id_")});
  for (const engine::IndexOptions& each : collection.indexes) {
    Json entry = index(each.field, each.descends ? -1 : 1, each.name);
    if (each.unique) entry["unique"] = true;
    indexes.push_back(std::move(entry));
  }
  const Json document = {
      {"indexes", indexes}, {"uuid", ""}, {"collectionName", name}, {"type", "collection"}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<void> write_file(const fs::path& path, std::string_view text) {
  auto file = OutputFile::open(path.string());
  if (!file) return file.error();
  if (auto written = file->write(text); !written) return written;
  return file->publish();
}

/// One collection: NAME.bson, its documents one after the other, and NAME.metadata.json.
Result<void> export_collection(engine::Engine& engine, const engine::CollectionSummary& collection,
                               const fs::path& folder, Exported& exported) {
  const std::string name = collection.name.substr(collection.name.find('.') + 1);
  const std::string base = (folder / file_name(name)).string();
  auto file = OutputFile::open(base + ".bson");
  if (!file) return file.error();
  auto cursor = engine.collection(collection.name).find({.skips_damaged = true});
  if (!cursor)
    return Error{ErrorCode::failed, cursor.failure().message, collection.name, "report it"};
  while (!cursor->is_exhausted()) {
    const auto batch = cursor->next_batch(batch_documents, batch_bytes);
    if (!batch)
      return Error{ErrorCode::failed, batch.failure().message, collection.name, "report it"};
    for (const std::string& document : *batch)
      if (auto written = file->write(document); !written) return written;
    exported.documents += batch->size();
  }
  exported.corrupt += cursor->corrupt();
  ++exported.collections;
  if (auto published = file->publish(); !published) return published;
  return write_file(base + ".metadata.json", metadata_of(collection, name));
}

void append_argument(std::string& text, std::string_view argument) {
  text += "$" + std::to_string(argument.size()) + "\r\n";
  text.append(argument).append("\r\n");
}

/// Values of Redis clients, as requests that `redis-cli --pipe` sends. No file where there are
/// none.
Result<void> export_values(engine::DocumentStore& store, const fs::path& path, Exported& exported) {
  server::redis::StoreKeyValues values(store);
  if (values.size() == 0) return {};
  auto file = OutputFile::open(path.string());
  if (!file) return file.error();
  std::string from, next, value, text;
  for (bool goes_on = true; goes_on; from = next) {
    std::vector<std::string> keys;
    goes_on = values.scan(from, batch_documents, keys, next);
    for (const std::string& key : keys) {
      if (values.get(key, value) != engine::Status::ok) {
        ++exported.corrupt;
        continue;
      }
      text = "*3\r\n";
      append_argument(text, "SET");
      append_argument(text, key);
      append_argument(text, value);
      if (auto written = file->write(text); !written) return written;
      ++exported.values;
    }
  }
  return file->publish();
}

Result<void> make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return {};
  return Error{ErrorCode::io, "cannot be made: " + error.message(), folder.string(),
               "name a folder that you may write with --out"};
}

Result<Exported> export_all(engine::Engine& engine, const fs::path& folder) {
  Exported exported;
  for (const std::string& database : engine.databases()) {
    const fs::path inside = folder / file_name(database);
    if (auto made = make_folder(inside); !made) return made.error();
    for (const auto& collection : engine.collections(database))
      if (auto done = export_collection(engine, collection, inside, exported); !done)
        return done.error();
  }
  if (auto done = export_values(engine.store(), folder / "redis.resp", exported); !done)
    return done.error();
  return exported;
}

Result<void> check_is_new(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored) || fs::is_empty(folder, ignored)) return make_folder(folder);
  return Error{ErrorCode::exists, "is not empty", folder.string(),
               "name another folder with --out, or remove it"};
}

}  // namespace

int export_documents(const Arguments& arguments) {
  FlagTable table("engine export",
                  "Writes a pool's documents as mongodump does, DATABASE/COLLECTION.bson, for "
                  "mongorestore; values of Redis clients into redis.resp, for redis-cli --pipe. "
                  "Exit code 5: some are corrupt and left out.");
  std::vector<std::string> words;
  std::string out = "dump";
  EnginePoolOptions options;
  table.add_words("POOL", words, "the pool's file; no server may have it open");
  table.add("--out", text(), out, "the folder to write to (dump)");
  if (const auto code = table.read(arguments)) return *code;
  if (words.size() != 1) return report(usage("exports one pool", "engine export", "give its path"));
  options.path = words.front();
  auto pool = EnginePool::open(options);
  if (!pool) return report(pool.error());
  if (const auto is_new = check_is_new(out); !is_new) return report(is_new.error());
  const auto exported = export_all((*pool)->engine(), out);
  if (!exported) return report(exported.error());
  const int printed = print_result(
      out + ": " + std::to_string(exported->documents) + " documents of " +
      std::to_string(exported->collections) + " collections, " + std::to_string(exported->values) +
      " values of Redis clients" +
      (exported->corrupt != 0 ? ", " + std::to_string(exported->corrupt) + " corrupt left out"
                              : "") +
      "\n");
  if (const auto closed = (*pool)->close(); !closed) return report(closed.error());
  return exported->corrupt != 0 && printed == exit_ok ? exit_violation : printed;
}

}  // namespace perdure::cli

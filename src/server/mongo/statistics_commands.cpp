#include <unistd.h>

#include <chrono>

#include "server/mongo/command.h"

namespace perdure::server::mongo {
namespace {

/// Sizes are those of the whole store, by the share of its documents: it does not keep collections
/// apart.
struct Share {
  explicit Share(const engine::StoreUsage& usage) : usage(usage) {}
  engine::StoreUsage usage;
  std::uint64_t documents = 0;

  [[nodiscard]] std::int64_t of(std::uint64_t bytes) const noexcept {
    if (usage.documents == 0) return 0;
    const double part = static_cast<double>(documents) / static_cast<double>(usage.documents);
    return static_cast<std::int64_t>(static_cast<double>(bytes) * part);
  }
  [[nodiscard]] std::int64_t live_bytes() const noexcept {
    return of(usage.live_bytes + usage.extent_bytes);
  }
  [[nodiscard]] std::int64_t storage_bytes() const noexcept {
    return of(usage.segment_bytes + usage.extent_bytes);
  }
};

std::int64_t as_signed(std::uint64_t count) { return static_cast<std::int64_t>(count); }

void append_sizes(bson_t* reply, std::string_view data_name, const Share& share) {
  engine::append_int64(reply, data_name, share.live_bytes());
  if (share.documents != 0)
    engine::append_int64(reply, "avgObjSize", share.live_bytes() / as_signed(share.documents));
  engine::append_int64(reply, "storageSize", share.storage_bytes());
}

}  // namespace

Answer<Done> run_collection_stats(Call& call) {
  if (auto checked = call.check_options({"scale"}); !checked) return checked;
  const Answer<std::int64_t> scale = call.number("scale", 1);
  if (!scale || *scale != 1) return {Code::bad_value, "the only scale is 1"};
  const Answer<std::string> name = call.collection_name();
  if (!name) return name.failure();
  engine::Collection collection = call.engine().collection(*name);
  const auto count = collection.count();
  if (!count) return count.failure();
  const auto indexes = collection.indexes();
  Share share(call.engine().usage());
  share.documents = *count;
  engine::append_text(call.reply, "ns", *name);
  engine::append_int64(call.reply, "count", as_signed(*count));
  append_sizes(call.reply, "size", share);
  engine::append_bool(call.reply, "capped", false);
  engine::append_int32(call.reply, "nindexes",
                       static_cast<std::int32_t>(indexes.ok() ? indexes->size() + 1 : 0));
  engine::append_int32(call.reply, "scaleFactor", 1);
  return Done{};
}

Answer<Done> run_database_stats(Call& call) {
  if (auto checked = call.check_options({"scale", "freeStorage"}); !checked) return checked;
  const Answer<std::int64_t> scale = call.number("scale", 1);
  if (!scale || *scale != 1) return {Code::bad_value, "the only scale is 1"};
  Share share(call.engine().usage());
  std::size_t indexes = 0;
  const auto collections = call.engine().collections(call.database);
  for (const engine::CollectionSummary& collection : collections) {
    const auto count = call.engine().collection(collection.name).count();
    if (!count) return count.failure();
    share.documents += *count;
    indexes += collection.indexes.size() + 1;
  }
  engine::append_text(call.reply, "db", call.database);
  engine::append_int64(call.reply, "collections", as_signed(collections.size()));
  engine::append_int64(call.reply, "views", 0);
  engine::append_int64(call.reply, "objects", as_signed(share.documents));
  append_sizes(call.reply, "dataSize", share);
  engine::append_int64(call.reply, "indexes", as_signed(indexes));
  engine::append_int32(call.reply, "scaleFactor", 1);
  return Done{};
}

// Options only choose sections, and are few here.
Answer<Done> run_server_status(Call& call) {
  const auto uptime = std::chrono::duration_cast<std::chrono::seconds>(
                          std::chrono::steady_clock::now() - call.service.started)
                          .count();
  const engine::StoreUsage usage = call.engine().usage();
  engine::append_text(call.reply, "process", "perdure");
  engine::append_text(call.reply, "version", call.service.version);
  engine::append_int64(call.reply, "pid", getpid());
  engine::append_double(call.reply, "uptime", static_cast<double>(uptime));
  {
    engine::DocumentBuilder connections(call.reply, "connections");
    engine::append_int32(connections, "current", call.service.connections.load());
    engine::append_int32(connections, "totalCreated", call.service.last_connection.load());
  }
  {
    engine::DocumentBuilder cursors(call.reply, "cursors");
    engine::append_int64(cursors, "open", as_signed(call.service.cursors.size()));
  }
  engine::DocumentBuilder store(call.reply, "perdure");
  engine::append_int64(store, "documents", as_signed(usage.documents));
  engine::append_int64(store, "liveBytes", as_signed(usage.live_bytes));
  engine::append_int64(store, "longDocumentBytes", as_signed(usage.extent_bytes));
  engine::append_int64(store, "segmentBytes", as_signed(usage.segment_bytes));
  engine::append_int64(store, "movedBytes", as_signed(usage.moved_bytes));
  engine::append_int64(store, "dramBytes", as_signed(usage.dram_bytes));
  return Done{};
}

}  // namespace perdure::server::mongo

// An engine on a pool in memory, which a test may cut off at any moment.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/document/engine.h"
#include "engine/document/parts.h"
#include "engine/document/test_documents.h"
#include "engine/store/test_image.h"

namespace perdure::engine {

class EngineInImage {
 public:
  explicit EngineInImage(std::size_t bytes = 16U << 20) : image_(std::make_unique<Image>(bytes)) {
    pool_ = std::move(Pool::create_in(image_->memory())).value();
    engine_ = std::move(Engine::create(*pool_)).value();
  }
  /// What the image holds now, opened elsewhere.
  [[nodiscard]] std::unique_ptr<EngineInImage> cut() const {
    wait_for_background(engine_->store());
    std::unique_ptr<EngineInImage> after(new EngineInImage(nullptr));
    after->image_ = std::make_unique<Image>(*image_);
    after->pool_ = std::move(Pool::open_in(after->image_->memory())).value();
    after->engine_ = std::move(Engine::open(*after->pool_)).value();
    return after;
  }
  Engine* operator->() noexcept { return engine_.get(); }
  [[nodiscard]] Engine::Parts& parts() noexcept { return engine_->parts(); }
  [[nodiscard]] Collection people() { return engine_->collection("test.people"); }

  void insert(const char* json) {
    const Answer<Done> done = people().insert(document(json));
    EXPECT_TRUE(done.ok()) << json << ": " << (done.ok() ? "" : done.failure().message);
  }
  /// The _ids of what a query finds, in order: "1 2".
  [[nodiscard]] std::string ids(const char* filter, const char* sort = "", std::uint64_t skip = 0,
                                std::uint64_t limit = 0) {
    Answer<Cursor> cursor = people().find({.filter = document(filter),
                                           .sort = *sort != '\0' ? document(sort) : "",
                                           .skip = skip,
                                           .limit = limit});
    if (!cursor) return name_of(cursor.failure().code);
    std::string ids;
    for (;;) {
      Answer<std::optional<std::string>> next = cursor->next();
      if (!next) return name_of(next.failure().code);
      if (!next->has_value()) return ids;
      bson_iter_t id;
      if (!ids.empty()) ids += ' ';
      ids += find_field(**next, "_id", id) ? json_of(id) : "?";
    }
  }
  [[nodiscard]] std::string one(const char* filter) {
    Answer<Cursor> cursor = people().find({.filter = document(filter), .limit = 1});
    Answer<std::optional<std::string>> next = cursor->next();
    return next.ok() && next->has_value() ? json_of(**next) : "nothing";
  }
  /// Changes a byte of the record that holds `mark`.
  void damage(std::string_view mark) {
    const std::span<std::byte> memory(pool_->base(), pool_->bytes());
    const auto found = std::search(memory.begin(), memory.end(), mark.begin(), mark.end(),
                                   [](std::byte a, char b) { return static_cast<char>(a) == b; });
    ASSERT_NE(found, memory.end());
    *found ^= std::byte{1};
  }
  void expect_sound() {
    for (const Finding& finding : engine_->check(5)) ADD_FAILURE() << finding.what;
  }
  /// Entries of all indexes in the store.
  [[nodiscard]] std::size_t entry_count() {
    std::vector<DocumentStore::Entry> entries;
    std::string next;
    engine_->store().scan_entries("\xFE", "", 100000, entries, next);
    return entries.size();
  }

 private:
  explicit EngineInImage(std::nullptr_t) {}

  std::unique_ptr<Image> image_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace perdure::engine

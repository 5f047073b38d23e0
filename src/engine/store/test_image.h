// A document store on a pool in memory, which a test may copy at any moment: that is what a machine
// leaves whose caches are flushed when it loses power.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/store/document_store.h"
#include "pool/pool.h"

namespace perdure::engine {

/// Memory for the image of a pool.
class Image {
 public:
  explicit Image(std::size_t bytes)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(page_bytes, bytes))), bytes_(bytes) {
    std::memset(memory_.get(), 0, bytes);
  }
  Image(const Image& other) : Image(other.bytes_) {
    std::memcpy(memory_.get(), other.memory_.get(), bytes_);
  }
  Image& operator=(const Image&) = delete;
  [[nodiscard]] std::span<std::byte> memory() noexcept { return {memory_.get(), bytes_}; }

 private:
  static constexpr std::size_t page_bytes = 4096;
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_;
};

/// Entries: one for each letter of the document up to a '.', unique for a capital one.
class Letters final : public EntryRule {
 public:
  void entries(std::string_view, std::string_view document, Entries& out) const override {
    for (const char letter : document.substr(0, document.find('.'))) {
      std::string& entry = out.add(letter >= 'A' && letter <= 'Z');
      entry = "\xfe";
      entry += letter;
    }
  }
};

/// A copy takes its words one after the other, so a thread of the index's that writes meanwhile
/// would leave what no power cut does. A check lets it finish.
inline void wait_for_background(const DocumentStore& store) {
  static_cast<void>(store.check_invariants());
}

/// A store in an image, created or recovered.
class StoreInImage {
 public:
  explicit StoreInImage(std::size_t bytes) : image_(std::make_unique<Image>(bytes)) {
    pool_ = std::move(Pool::create_in(image_->memory())).value();
    store_ = std::move(DocumentStore::create(*pool_, {}, rule_)).value();
  }
  /// What the image holds now, opened elsewhere.
  [[nodiscard]] std::unique_ptr<StoreInImage> cut() const {
    wait_for_background(*store_);
    std::unique_ptr<StoreInImage> after(new StoreInImage);
    after->image_ = std::make_unique<Image>(*image_);
    after->pool_ = std::move(Pool::open_in(after->image_->memory())).value();
    auto store = DocumentStore::recover(*after->pool_, {}, after->rule_);
    EXPECT_TRUE(store.ok()) << store.error().line();
    if (store) after->store_ = std::move(*store);
    return after;
  }
  DocumentStore* operator->() noexcept { return store_.get(); }
  [[nodiscard]] Pool& pool() noexcept { return *pool_; }
  [[nodiscard]] std::string at(std::string_view key) {
    std::string document;
    const Status status = store_->lookup(key, document);
    return status == Status::ok ? document : std::string("(") + name_of(status) + ")";
  }
  /// Keys of the documents with this letter, in order of their ids.
  [[nodiscard]] std::vector<std::string> with(char letter) {
    std::vector<DocumentStore::Entry> entries;
    std::string next;
    const std::string from = std::string("\xfe") + letter;
    const std::string to = std::string("\xfe") + static_cast<char>(letter + 1);
    store_->scan_entries(from, to, 1000, entries, next);
    std::vector<std::string> keys;
    for (const DocumentStore::Entry& entry : entries) {
      std::string key;
      std::string document;
      EXPECT_EQ(store_->read(entry.id, key, document), Status::ok);
      keys.push_back(key);
    }
    return keys;
  }
  void expect_sound() {
    const Result<void> sound = store_->check_invariants();
    EXPECT_TRUE(sound.ok()) << sound.error().line();
  }

 private:
  StoreInImage() = default;

  std::unique_ptr<Image> image_;
  std::unique_ptr<Pool> pool_;
  Letters rule_;
  std::unique_ptr<DocumentStore> store_;
};

}  // namespace perdure::engine

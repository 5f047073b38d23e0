#include "engine/store/digest.h"

#include <isa-l/crc64.h>

#include <array>
#include <cstdio>
#include <string_view>
#include <vector>

#include "core/rng.h"
#include "engine/store/document_store.h"

namespace perdure::engine {
namespace {

using Crc = std::uint64_t (*)(std::uint64_t, const unsigned char*, std::uint64_t);
constexpr std::array<Crc, 2> crcs{crc64_ecma_refl, crc64_jones_refl};
constexpr std::size_t read_at_once = 1024;

enum class Item : std::uint64_t { document = 1, entry = 2 };

/// The length of the first text is in the sum, so that no byte can move from one to the other.
void add(Digest& digest, Item item, std::string_view first, std::string_view second) {
  for (std::size_t i = 0; i < crcs.size(); ++i) {
    std::uint64_t crc = mix64(static_cast<std::uint64_t>(item) << 32 | first.size());
    for (const std::string_view text : {first, second})
      crc = crcs[i](crc, reinterpret_cast<const unsigned char*>(text.data()), text.size());
    digest.sum[i] += mix64(crc);
  }
}

}  // namespace

std::string Digest::text() const {
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(sum[0]),
                static_cast<unsigned long long>(sum[1]));
  return text.data();
}

Result<Digest> digest_of(const DocumentStore& store) {
  Digest digest;
  std::vector<DocumentStore::Entry> entries;
  std::string key;
  std::string document;
  std::string next;
  do {
    const std::string from = std::move(next);
    entries.clear();
    store.entries_in(from, {}, read_at_once, entries, next);
    for (const DocumentStore::Entry& entry : entries) {
      const Status status = store.read_id(entry.id, key, document);
      if (status != Status::ok)
        return Error{ErrorCode::corrupt,
                     "an index entry leads to a record that is " + std::string(name_of(status)),
                     "record " + std::to_string(entry.id),
                     "`perdure engine check` lists what is wrong"};
      if (entry.entry == key) {
        add(digest, Item::document, key, document);
        ++digest.documents;
      } else {
        add(digest, Item::entry, entry.entry, key);
        ++digest.entries;
      }
    }
  } while (!next.empty());
  return digest;
}

}  // namespace perdure::engine

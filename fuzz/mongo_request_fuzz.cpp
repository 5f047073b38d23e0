// Reads arbitrary bytes as a MongoDB request, and what it holds as filters, updates, projections
// and sort orders over the documents beside it. Whatever they are: no crash, results that are whole
// documents, and encodings that order as their values do.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/document/filter.h"
#include "engine/document/projection.h"
#include "engine/document/sort.h"
#include "engine/document/update.h"
#include "server/mongo/wire.h"

namespace {

using namespace perdure::engine;
using perdure::server::mongo::Request;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "mongo_request_fuzz: %s\n", what);
  std::abort();
}

int sign(int order) { return order < 0 ? -1 : order > 0 ? 1 : 0; }

void compare_fields(std::string_view document) {
  bson_iter_t a = fields_of(document);
  while (bson_iter_next(&a)) {
    bson_iter_t b = a;
    std::string encoded_a;
    if (!encode(a, encoded_a) || !bson_iter_next(&b)) continue;
    std::string encoded_b;
    if (!encode(b, encoded_b)) continue;
    bool has_decimal = false;
    const int order = compare(a, b, has_decimal);
    require(!has_decimal && sign(order) == sign(encoded_a.compare(encoded_b)),
            "an encoding orders otherwise than its value");
  }
}

void apply_to(std::string_view change, std::string_view document) {
  std::string out;
  if (const auto filter = Filter::parse(change)) {
    (void)filter->matches(document);
    if (const auto update = Update::parse(document); update && update->make(*filter, out))
      require(check_document(out).ok(), "an upsert made a malformed document");
  }
  if (const auto update = Update::parse(change); update && update->apply(document, out))
    require(check_document(out).ok(), "an update made a malformed document");
  if (const auto projection = Projection::parse(change)) {
    projection->apply(document, out);
    require(check_document(out).ok(), "a projection made a malformed document");
  }
  if (const auto sort = Sort::parse(change)) (void)sort->key_of(document);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto bytes = perdure::server::mongo::message_bytes(input);
  if (!bytes || *bytes == 0 || *bytes > size) return 0;
  const auto request = perdure::server::mongo::read_request(input.substr(0, *bytes));
  if (!request || !perdure::server::mongo::check_documents(*request)) return 0;
  std::string output;
  perdure::server::mongo::write_reply(*request, request->body, output);
  std::vector<std::string_view> documents{request->body};
  for (const auto& sequence : request->sequences)
    documents.insert(documents.end(), sequence.documents.begin(), sequence.documents.end());
  for (const std::string_view document : documents) {
    compare_fields(document);
    for (const std::string_view other : documents) apply_to(document, other);
  }
  return 0;
}

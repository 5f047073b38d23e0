#include "workload/key_set.h"

#include "workload/clustered_keys.h"
#include "workload/email_keys.h"
#include "workload/ipv4_keys.h"
#include "workload/kmer_keys.h"
#include "workload/snowflake_keys.h"
#include "workload/url_keys.h"
#include "workload/uuid_keys.h"

namespace perdure::workload {

std::shared_ptr<const IntegerKeySet> make_integer_key_set(Keys::Form form, std::uint64_t seed) {
  switch (form) {
    case Keys::Form::snowflake:
      return std::make_shared<SnowflakeKeys>(seed);
    case Keys::Form::clustered:
      return std::make_shared<ClusteredKeys>(seed);
    case Keys::Form::ipv4:
      return std::make_shared<Ipv4Keys>(seed);
    case Keys::Form::kmer:
      return std::make_shared<KmerKeys>(seed);
    default:
      return nullptr;
  }
}

std::shared_ptr<const TextKeySet> make_text_key_set(Keys::Form form, std::uint64_t seed) {
  switch (form) {
    case Keys::Form::uuid:
      return std::make_shared<UuidKeys>(UuidKeys::Notation::text, seed);
    case Keys::Form::uuid_binary:
      return std::make_shared<UuidKeys>(UuidKeys::Notation::binary, seed);
    case Keys::Form::kmer_text:
      return std::make_shared<KmerTextKeys>(seed);
    case Keys::Form::email:
      return std::make_shared<EmailKeys>(seed);
    case Keys::Form::url:
      return std::make_shared<UrlKeys>(seed);
    default:
      return nullptr;
  }
}

}  // namespace perdure::workload

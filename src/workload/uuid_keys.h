// UUIDs of version 4 (RFC 9562): 122 random bits, as 36 characters or as 16 bytes.
// They arrive in no order, and neighbours share nothing; the text has dashes and the version's
// digit at fixed places. 64 of the bits say which id it is, the other 58 follow from them.
#pragma once

#include "workload/key_set.h"

namespace perdure::workload {

class UuidKeys final : public TextKeySet {
 public:
  enum class Notation : std::uint8_t { text, binary };
  UuidKeys(Notation notation, std::uint64_t seed) noexcept;

  static constexpr std::size_t text_bytes = 36;
  static constexpr std::size_t binary_bytes = 16;
  [[nodiscard]] std::size_t write(std::uint64_t id, char* out) const noexcept override;
  [[nodiscard]] std::optional<std::uint64_t> id_of(std::string_view key) const override;
  [[nodiscard]] std::size_t longest() const noexcept override {
    return notation_ == Notation::text ? text_bytes : binary_bytes;
  }

 private:
  Notation notation_;
  std::uint64_t key_;
};

}  // namespace perdure::workload

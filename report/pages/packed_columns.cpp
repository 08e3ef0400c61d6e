#include "report/pages/packed_columns.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace penstock {
namespace {

void put_zeros(std::string& bytes, std::uint64_t zeros) {
  if (zeros == 0) return;
  put_number(bytes, 0);
  put_number(bytes, zeros - 1);
}

}  // namespace

void put_number(std::string& bytes, std::uint64_t number) {
  for (; number >= 128; number >>= 7) bytes += static_cast<char>(number | 128);
  bytes += static_cast<char>(number);
}

void PackedColumns::put(Column column, std::int64_t number) {
  Bytes& bytes = of(column);
  if (number == 0) {
    ++bytes.zeros;
    return;
  }
  put_zeros(bytes.written, bytes.zeros);
  bytes.zeros = 0;
  put_number(bytes.written, static_cast<std::uint64_t>(number));
}

void PackedColumns::put_signed(Column column, std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  put(column, static_cast<std::int64_t>(number < 0 ? ~(bits << 1) : bits << 1));
}

std::string PackedColumns::bytes(Column column) const {
  const Bytes& bytes = columns_[static_cast<std::size_t>(column)];
  std::string all = bytes.written;
  put_zeros(all, bytes.zeros);
  return all;
}

std::string PackedColumns::all() const {
  std::string all;
  for (std::size_t c = 0; c < columns_.size(); ++c) all += bytes(static_cast<Column>(c));
  return all;
}

nlohmann::ordered_json PackedColumns::lengths() const {
  nlohmann::ordered_json lengths = nlohmann::ordered_json::object();
  for (std::size_t c = 0; c < columns_.size(); ++c)
    lengths[std::string(kColumnNames[c])] = bytes(static_cast<Column>(c)).size();
  return lengths;
}

}  // namespace penstock

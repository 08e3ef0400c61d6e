// A text or a list is written as its length in four bytes, followed by its content. The reader compares a
// length with the bytes that are present before it allocates memory. A message of 16 bytes can therefore not
// make it allocate gigabytes.

#include "backend/process/byte_form.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

void ByteWriter::text(std::string_view text, std::size_t most) {
  const std::string_view kept = text.substr(0, most);
  number(static_cast<std::uint32_t>(kept.size()));
  bytes_.insert(bytes_.end(), kept.begin(), kept.end());
}

void ByteWriter::times(const std::vector<Ns>& times) {
  number(static_cast<std::uint32_t>(times.size()));
  for (const Ns time : times) number(time);
}

std::span<const std::uint8_t> ByteReader::taken(std::size_t size) {
  if (failed_ || rest_.size() < size) {
    fail();
    return {};
  }
  const std::span<const std::uint8_t> bytes = rest_.first(size);
  rest_ = rest_.subspan(size);
  return bytes;
}

std::size_t ByteReader::count(std::size_t most, std::size_t size) {
  const std::size_t count = number<std::uint32_t>();
  if (count > most || count > rest_.size() / size) fail();
  return failed_ ? 0 : count;
}

std::string ByteReader::text(std::size_t most) {
  const std::span<const std::uint8_t> bytes = taken(count(most, 1));
  return {bytes.begin(), bytes.end()};
}

std::vector<Ns> ByteReader::times(std::size_t most) {
  std::vector<Ns> times(count(most, sizeof(Ns)));
  std::ranges::generate(times, [this] { return number<Ns>(); });
  return times;
}

void ByteReader::fail() {
  failed_ = true;
  // No bytes are left to read, so all later reads fail as well.
  rest_ = {};
}

}  // namespace penstock

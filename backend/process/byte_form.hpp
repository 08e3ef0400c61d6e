#pragma once
// Converts numbers, texts and lists of times to bytes and back. ByteReader never reads past the end. It never
// allocates more memory than the size of the bytes that have arrived.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

template <typename T>
concept Number = std::is_arithmetic_v<T>;

/// Appends values to a list of bytes. Numbers are written in the host's byte order. Hosts with different byte
/// orders refuse each other when they connect (data_frame.cpp).
class ByteWriter {
 public:
  template <Number T>
  void number(T value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  /// Writes at most the first `most` bytes of the text.
  void text(std::string_view text, std::size_t most);
  void times(const std::vector<Ns>& times);

  std::vector<std::uint8_t> taken() { return std::move(bytes_); }

 private:
  std::vector<std::uint8_t> bytes_;
};

/// Reads values in the order in which they were written. After the first missing or wrong value, all reads
/// return 0 or an empty value, and ended_well() returns false.
class ByteReader {
 public:
  /// Stores a reference to `bytes`, which must outlive this object.
  explicit ByteReader(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  template <Number T>
  T number() {
    T value{};
    if (const auto bytes = taken(sizeof(T)); !bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  /// Reads a number. The reading fails if it is not between `least` and `most`.
  template <Number T>
  T number(T least, T most) {
    const T value = number<T>();
    if (value < least || value > most) fail();
    return failed_ ? least : value;
  }
  std::string text(std::size_t most);
  std::vector<Ns> times(std::size_t most);
  /// Reads the number of elements of a list. The reading fails if it is above `most`, or if fewer bytes are
  /// left than elements of `size` bytes need.
  std::size_t count(std::size_t most, std::size_t size);

  void fail();
  /// Returns true if all values were present and correct, and no bytes are left.
  bool ended_well() const { return !failed_ && rest_.empty(); }

 private:
  std::span<const std::uint8_t> taken(std::size_t size);

  std::span<const std::uint8_t> rest_;
  bool failed_ = false;
};

}  // namespace penstock

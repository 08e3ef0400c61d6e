#pragma once
// Converts numbers, texts and lists of times to bytes and back. A reader never reads past the end and never
// reserves more memory than the bytes that have arrived.

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
  /// Writes the text, cut to `most` bytes.
  void text(std::string_view text, std::size_t most);
  void times(const std::vector<Ns>& times);

  std::vector<std::uint8_t> taken() { return std::move(bytes_); }

 private:
  std::vector<std::uint8_t> bytes_;
};

/// Reads values in the order in which they were written. After the first value that is missing or wrong,
/// everything it returns is 0 or empty, and ended_well() returns false.
class ByteReader {
 public:
  /// Keeps a reference to `bytes`.
  explicit ByteReader(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  template <Number T>
  T number() {
    T value{};
    if (const auto bytes = taken(sizeof(T)); !bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  /// Reads a number from `least` to `most`. Any other number is a failure.
  template <Number T>
  T number(T least, T most) {
    const T value = number<T>();
    if (value < least || value > most) fail();
    return failed_ ? least : value;
  }
  std::string text(std::size_t most);
  std::vector<Ns> times(std::size_t most);
  /// Reads the length of a list whose elements take `size` bytes each. It fails if the length is above `most`
  /// or there are fewer bytes.
  std::size_t count(std::size_t most, std::size_t size);

  void fail();
  /// Returns whether all values were present and no bytes are left.
  bool ended_well() const { return !failed_ && rest_.empty(); }

 private:
  std::span<const std::uint8_t> taken(std::size_t size);

  std::span<const std::uint8_t> rest_;
  bool failed_ = false;
};

}  // namespace penstock

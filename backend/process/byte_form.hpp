#pragma once
// Numbers, texts and lists of times as bytes, and back. A reader never reads behind the end, and never makes
// room for more than what has come.

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

/// Numbers as they lie in memory. The hosts of a run have one order of bytes, or do not get to exchange any
/// (data_frame.cpp).
class ByteWriter {
 public:
  template <Number T>
  void number(T value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  /// What is longer than `most` bytes is cut.
  void text(std::string_view text, std::size_t most);
  void times(const std::vector<Ns>& times);

  std::vector<std::uint8_t> taken() { return std::move(bytes_); }

 private:
  std::vector<std::uint8_t> bytes_;
};

/// After the first thing that is not there, all that it reads is 0 or empty, and ended_well() says no.
class ByteReader {
 public:
  /// Refers to `bytes`.
  explicit ByteReader(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  template <Number T>
  T number() {
    T value{};
    if (const auto bytes = taken(sizeof(T)); !bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  /// A number of [least, most]; another one is no message of ours.
  template <Number T>
  T number(T least, T most) {
    const T value = number<T>();
    if (value < least || value > most) fail();
    return failed_ ? least : value;
  }
  std::string text(std::size_t most);
  std::vector<Ns> times(std::size_t most);
  /// How many of what takes `size` bytes each come next: at most `most`, and no more than there are bytes
  /// for.
  std::size_t count(std::size_t most, std::size_t size);

  void fail();
  /// Everything was there, and nothing is left.
  bool ended_well() const { return !failed_ && rest_.empty(); }

 private:
  std::span<const std::uint8_t> taken(std::size_t size);

  std::span<const std::uint8_t> rest_;
  bool failed_ = false;
};

}  // namespace penstock

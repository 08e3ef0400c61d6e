#pragma once
// Numbers for keys that come again and again, such as the classes of a tape (tape_classes.hpp).

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/mixed_bits.hpp"

namespace penstock {

/// Numbers keys of `kWords` words from 0 on, in the order of their first use. The hash table has open
/// addressing, is at most half full, and contains only numbers. A vector contains the keys.
template <std::size_t kWords>
class Numbering {
 public:
  using Key = std::array<std::uint32_t, kWords>;
  struct Found {
    std::uint32_t number = 0;
    bool is_new = false;
  };

  Numbering() : places_(64, kFree) { keys_.reserve(places_.size() / 2); }

  Found of(const Key& key) {
    std::size_t place = free_or_equal(key);
    if (places_[place] != kFree) return {.number = places_[place], .is_new = false};
    if (2 * (keys_.size() + 1) > places_.size()) {
      grow();
      place = free_or_equal(key);
    }
    places_[place] = static_cast<std::uint32_t>(keys_.size());
    keys_.push_back(key);
    return {.number = places_[place], .is_new = true};
  }

  /// Compares without a branch for each word and without a call, because keys are short and mostly equal.
  static bool equal(const Key& a, const Key& b) {
    std::uint32_t difference = 0;
    for (std::size_t word = 0; word < kWords; ++word) difference |= a[word] ^ b[word];
    return difference == 0;
  }

 private:
  static constexpr std::uint32_t kFree = 0xffff'ffff;

  /// Returns the first place, from the key's hash on, that is free or holds the key's number.
  std::size_t free_or_equal(const Key& key) const {
    const std::size_t mask = places_.size() - 1;
    std::size_t place = hash(key) & mask;
    while (places_[place] != kFree && !equal(keys_[places_[place]], key)) place = (place + 1) & mask;
    return place;
  }

  static std::size_t hash(const Key& key) {
    std::uint64_t bits = 0;
    for (const std::uint32_t word : key) bits = (bits ^ word) * 0x9e3779b97f4a7c15ULL;
    return mixed(bits);
  }

  void grow() {
    places_.assign(2 * places_.size(), kFree);
    for (std::uint32_t number = 0; number < keys_.size(); ++number)
      places_[free_or_equal(keys_[number])] = number;
  }

  std::vector<Key> keys_;              // index: number of the key
  std::vector<std::uint32_t> places_;  // size is a power of two
};

}  // namespace penstock

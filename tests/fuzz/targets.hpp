#pragma once
// Everything that reads bytes which somebody else has written, behind one door: for libFuzzer (fuzzer.cpp)
// and for the replay in the ordinary tests (replay_test.cpp).

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace penstock {

struct FuzzTarget {
  std::string_view name;
  /// Reads the bytes. What is read must survive being written and read again; throws std::logic_error where
  /// it does not. What is refused is fine.
  void (*read)(std::span<const std::uint8_t> bytes);
  /// Files of the repository to begin with: folders, or one file, from the source root.
  std::vector<std::string_view> seeds;
  std::string_view seed_suffix;
};

const std::vector<FuzzTarget>& fuzz_targets();

}  // namespace penstock

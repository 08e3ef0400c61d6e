#pragma once
// The list of all readers of external bytes. libFuzzer (fuzzer.cpp) and the replay in the ordinary tests
// (replay_test.cpp) use it.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace penstock {

struct FuzzTarget {
  std::string_view name;
  /// Reads the bytes. If the reader accepts them, the value must be unchanged after it is written and read
  /// again. Throws std::logic_error if it is not. The reader may refuse the bytes.
  void (*read)(std::span<const std::uint8_t> bytes);
  /// The files of the repository with which fuzzing begins: folders or single files, relative to the source
  /// root.
  std::vector<std::string_view> seeds;
  std::string_view seed_suffix;
};

const std::vector<FuzzTarget>& fuzz_targets();

}  // namespace penstock

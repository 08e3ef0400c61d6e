#pragma once
// What turns one list of words into another.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace penstock {

/// One step through two lists.
enum class Edit : std::uint8_t {
  same,     // a word of both
  removed,  // a word of the first list only
  added,    // a word of the second list only
};

/// A shortest edit script (Myers, "An O(ND) Difference Algorithm", Algorithmica 1986). Lists that differ in
/// more than kMostEdits words give a script that removes and adds all that lies between their common ends.
/// Time O(words * edits), memory O(edits * min(words, kMostEdits)).
std::vector<Edit> edit_script(std::span<const std::string> before, std::span<const std::string> after);
inline constexpr std::int32_t kMostEdits = 4096;

}  // namespace penstock

#pragma once
// Computes the edits that change one list of words into another.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace penstock {

/// One edit of a script. A script reads both lists from the beginning to the end.
enum class Edit : std::uint8_t {
  same,     // a word of both lists
  removed,  // a word of the first list only
  added,    // a word of the second list only
};

/// Returns a shortest edit script (Myers, "An O(ND) Difference Algorithm", Algorithmica 1986). If more than
/// kMostEdits words differ, only the common beginning and end remain, and the script removes and adds all
/// other words. Takes time O(words * edits) and memory O(edits * min(words, kMostEdits)).
std::vector<Edit> edit_script(std::span<const std::string> before, std::span<const std::string> after);
inline constexpr std::int32_t kMostEdits = 4096;

}  // namespace penstock

#pragma once
// The edits that turn one list of words into another.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace penstock {

/// One edit in a script that goes through two lists.
enum class Edit : std::uint8_t {
  same,     // a word of both
  removed,  // a word of the first list only
  added,    // a word of the second list only
};

/// Returns a shortest edit script (Myers, "An O(ND) Difference Algorithm", Algorithmica 1986). If more than
/// kMostEdits words differ, the script removes and adds everything between the common beginning and end of
/// the lists. Takes time O(words * edits) and memory O(edits * min(words, kMostEdits)).
std::vector<Edit> edit_script(std::span<const std::string> before, std::span<const std::string> after);
inline constexpr std::int32_t kMostEdits = 4096;

}  // namespace penstock

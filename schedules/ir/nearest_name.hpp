#pragma once
// "Did you mean ...?": the known name nearest to a mistyped one.

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// The name with the least edit distance (Levenshtein, letters' case ignored) to `typed`, the first on
/// a tie. Requires at least one known name.
std::string_view nearest_name(std::string_view typed, std::span<const std::string_view> known);

/// nearest_name(), unless more than a third of its letters would have to be others: then it is no slip of the
/// pen, and nothing is better than a wrong hint.
std::optional<std::string_view> likely_name(std::string_view typed, std::span<const std::string_view> known);

/// Small letters without dashes and underscores: how names are compared that people write in several ways.
std::string plain_name(std::string_view name);

}  // namespace penstock

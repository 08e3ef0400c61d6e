#pragma once
// "Did you mean ...?": the known name that a mistyped one was likely meant to be.

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// Returns the known name that is spelled most like `typed`, the first on a tie; letters' case does not
/// count. Returns nothing where more than a third of the name's letters would have to change, unless `typed`
/// is some of the name's words ("bandwidth" of "intra_bandwidth"): a hint that is wrong misleads more than
/// none. Every message that offers a name asks this function.
std::optional<std::string_view> likely_name(std::string_view typed, std::span<const std::string_view> known);

/// Returns "; did you mean stages?" for a message about `typed`, or an empty text without a likely_name().
std::string did_you_mean(std::string_view typed, std::span<const std::string_view> known);

/// Returns the name in small letters without dashes and underscores. Names that people write in several ways
/// are compared in this form.
std::string plain_name(std::string_view name);

}  // namespace penstock

#pragma once
// "Did you mean ...?": the known name that a mistyped one was likely meant to be.

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// Returns the known name whose spelling is closest to `typed`, and the first of them on a tie. Upper and
/// lower case are equal. Returns nothing if more than a third of the name's letters would have to change,
/// because a wrong hint misleads more than no hint. A part of a name's words is accepted nevertheless
/// ("bandwidth" for "intra_bandwidth"). Every message that suggests a name uses this function.
std::optional<std::string_view> likely_name(std::string_view typed, std::span<const std::string_view> known);

/// Returns "; did you mean stages?" for a message about `typed`, or an empty text without a likely_name().
std::string did_you_mean(std::string_view typed, std::span<const std::string_view> known);

/// Returns the name in lower case without dashes and underscores. Names with several spellings are compared
/// in this form.
std::string plain_name(std::string_view name);

}  // namespace penstock

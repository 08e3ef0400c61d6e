#pragma once
// Suggests the name that a user probably meant when a name is mistyped ("did you mean ...?").

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// Returns the name of `known` with the spelling closest to `typed`, or the first of several that are
/// equally close. Case is ignored. Returns nothing if more than a third of the name's letters would have to
/// change, because a wrong hint is worse than no hint. `typed` may also be one or more whole words of a
/// name, such as "bandwidth" for "intra_bandwidth".
std::optional<std::string_view> likely_name(std::string_view typed, std::span<const std::string_view> known);

/// Returns a hint such as "; did you mean stages?" for a message about `typed`, or an empty text if
/// likely_name() returns nothing.
std::string did_you_mean(std::string_view typed, std::span<const std::string_view> known);

/// Returns the name in lower case and without dashes and underscores. Names that may be spelled in several
/// ways are compared in this form.
std::string plain_name(std::string_view name);

}  // namespace penstock

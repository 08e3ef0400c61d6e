#pragma once
// Reads the flag --vary of `penstock sweep`, which lists values of any key of a scenario.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "cli/outcome.hpp"
#include "scenarios/read/document_edits.hpp"

namespace penstock {

/// A key of a scenario and the values that a sweep gives it.
struct VariedKey {
  std::string key;
  std::vector<std::string> values;
};

/// Returns the parts of `text` between commas, without spaces around them. Commas inside brackets, braces and
/// quotes do not divide it: "[1 ms, 2 ms], 3 ms" has two parts.
std::vector<std::string> values_between_commas(std::string_view text);

/// Removes the first text of this key from the texts of --vary, and returns its values. Returns nothing if
/// there is none.
std::optional<std::string> taken_values(std::vector<std::string>& texts, std::string_view key);

/// Reads the texts of --vary. A text is KEY=VALUE,VALUE... If the values are whole numbers, "1..4" and
/// "1,2,4..16" are allowed, as in numbers_of_flag(). Error: a text has no key or an empty value, or two texts
/// have one key.
tl::expected<std::vector<VariedKey>, UserError> varied_keys(const std::vector<std::string>& texts);

/// Returns all combinations of the values, at most `most` of them. The last key changes first. Messages about
/// a value name "--vary KEY".
tl::expected<std::vector<std::vector<Override>>, UserError> combinations_of(
    const std::vector<VariedKey>& keys, std::size_t most);

}  // namespace penstock

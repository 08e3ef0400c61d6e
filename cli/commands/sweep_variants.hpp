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

/// Finds the first text of --vary for `key`, removes it from `texts`, and returns its values. Returns
/// nothing if no text has this key.
std::optional<std::string> taken_values(std::vector<std::string>& texts, std::string_view key);

/// Reads the texts of --vary, which have the form KEY=VALUE,VALUE... If the values are whole numbers, forms
/// such as "1..4" and "1,2,4..16" are allowed (see numbers_of_flag()). Fails if a text has no key or an
/// empty value, or if two texts have the same key.
tl::expected<std::vector<VariedKey>, UserError> varied_keys(const std::vector<std::string>& texts);

/// Returns all combinations of the values. The last key changes first. Fails if there are more than `most`
/// combinations. Later error messages about a value name the flag "--vary KEY".
tl::expected<std::vector<std::vector<Override>>, UserError> combinations_of(
    const std::vector<VariedKey>& keys, std::size_t most);

}  // namespace penstock

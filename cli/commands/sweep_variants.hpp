#pragma once
// Reads the flag --vary of `penstock sweep`, which lists values of any key of a scenario.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "cli/outcome.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/read/document.hpp"

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

// Writes the text that `penstock sweep` prints: the whole table of a short sweep, or a summary of a long one.

/// The largest number of points that are printed as a whole table. A longer sweep is summarized.
inline constexpr std::size_t kMostRowsPrinted = 40;

/// Returns the table of all points if the sweep is short. For a longer sweep, it returns the number of
/// points of each status and the best point of each schedule. After these, it lists the points that do not
/// fit into memory, and the reasons for skipped points. The text ends with the names of `files`, which
/// contain all points. `width` is the longest table line in characters; 0 means no limit.
std::string sweep_summary(const Sweep& sweep, const std::vector<std::string>& files, std::size_t width);

/// Returns the reasons why points of the sweep were not simulated, the most frequent first. Each line has a
/// reason and the number of points with this reason. The text is empty if all points were simulated.
std::string refusals_text(const Sweep& sweep);

}  // namespace penstock

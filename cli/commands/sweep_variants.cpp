// Reads --vary KEY=VALUE,VALUE... The combinations of all values are the product of the lists:
//
//   --vary a=1,2 --vary b=x,y,z        a=1 b=x   a=1 b=y   a=1 b=z   a=2 b=x   a=2 b=y   a=2 b=z
//
// A value is YAML, as after --set. It may be a list or a mapping, which contain commas of their own.
// Tested by SweepVary (tests/cli/sweep_vary_test.cpp).

#include "cli/commands/sweep_variants.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "cli/number_list.hpp"
#include "cli/outcome.hpp"
#include "scenarios/read/document_edits.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

std::string without_outer_spaces(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

/// Returns the values after the '=' of one --vary. Ranges of whole numbers are written out.
tl::expected<std::vector<std::string>, UserError> values_of(const std::string& flag,
                                                            const std::string& text) {
  const bool is_range =
      text.find("..") != std::string::npos && text.find_first_not_of("0123456789,.") == std::string::npos;
  if (is_range) {
    const auto numbers = numbers_of_flag(flag, text);
    if (!numbers) return tl::unexpected(numbers.error());
    std::vector<std::string> values;
    for (const auto number : *numbers) values.push_back(std::to_string(number));
    return values;
  }
  std::vector<std::string> values;
  for (std::string& value : values_between_commas(text)) {
    if (value.empty()) {
      return bad_input(fmt::format("{}: expected values with a comma between each two, got \"{}\"", flag,
                                   shown_name(text)));
    }
    // A value that is listed twice would give the same points twice.
    if (std::ranges::find(values, value) == values.end()) values.push_back(std::move(value));
  }
  return values;
}

}  // namespace

std::vector<std::string> values_between_commas(std::string_view text) {
  std::vector<std::string> values;
  std::size_t begin = 0;
  int depth = 0;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      values.push_back(without_outer_spaces(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  values.push_back(without_outer_spaces(text.substr(begin)));
  return values;
}

std::optional<std::string> taken_values(std::vector<std::string>& texts, std::string_view key) {
  const auto found = std::ranges::find_if(texts, [&](const std::string& text) {
    return text.size() > key.size() && text.starts_with(key) && text[key.size()] == '=';
  });
  if (found == texts.end()) return std::nullopt;
  std::string values = found->substr(key.size() + 1);
  texts.erase(found);
  return values;
}

tl::expected<std::vector<VariedKey>, UserError> varied_keys(const std::vector<std::string>& texts) {
  std::vector<VariedKey> keys;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return bad_input(
          fmt::format("--vary: expected KEY=VALUE,VALUE... such as cluster.latency=1us,4us, got \"{}\"",
                      shown_name(text)));
    }
    const std::string key = text.substr(0, equals);
    const std::string flag = "--vary " + key;
    if (key == "schedule") {
      return bad_input("--vary schedule: expected a key below it, such as schedule.name or schedule.program");
    }
    if (std::ranges::find(keys, key, &VariedKey::key) != keys.end())
      return bad_input(fmt::format("{} is given twice: put all of its values into one list", flag));
    auto values = values_of(flag, text.substr(equals + 1));
    if (!values) return tl::unexpected(values.error());
    keys.push_back({.key = key, .values = *std::move(values)});
  }
  return keys;
}

tl::expected<std::vector<std::vector<Override>>, UserError> combinations_of(
    const std::vector<VariedKey>& keys, std::size_t most) {
  std::vector<std::vector<Override>> combinations = {{}};
  for (const VariedKey& key : keys) {
    if (key.values.size() > most / combinations.size()) {
      return bad_input(fmt::format(
          "the values of --vary have more than {} combinations: make the lists shorter, or lift the limit by "
          "--max-points",
          most));
    }
    std::vector<std::vector<Override>> longer;
    longer.reserve(combinations.size() * key.values.size());
    for (const std::vector<Override>& combination : combinations) {
      for (const std::string& value : key.values) {
        longer.push_back(combination);
        longer.back().push_back({.key = key.key, .value = value, .flag = "--vary " + key.key});
      }
    }
    combinations = std::move(longer);
  }
  return combinations;
}

}  // namespace penstock

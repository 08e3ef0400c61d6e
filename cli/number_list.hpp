#pragma once
// Reads lists of numbers in the flags of a sweep: "1..16", "1,2,4..128", "3,5,7".

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "cli/outcome.hpp"

namespace penstock {

/// Returns the numbers of `text`, ascending, each once; all at least 1 and below 2^31. Commas separate
/// numbers. `..` continues from the numbers before it up to and including the one after it:
///
/// - after one number by one: "1..4" is 1 2 3 4;
/// - if the last three before it have a common ratio, by that: "1,2,4..16" is 1 2 4 8 16;
/// - otherwise by the difference of the last two: "1,3..9" is 1 3 5 7 9.
///
/// A last number that the steps do not reach is not in the list. Errors say what was expected and found. More
/// than 100,000 numbers are refused.
tl::expected<std::vector<std::int32_t>, std::string> parse_number_list(std::string_view text);

/// Reads the list of a flag's value; an empty text gives an empty list. Errors begin with the flag.
tl::expected<std::vector<std::int32_t>, UserError> numbers_of_flag(std::string_view flag,
                                                                   const std::string& text);

}  // namespace penstock

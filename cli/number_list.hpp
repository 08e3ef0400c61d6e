#pragma once
// Reads lists of numbers for the flags of a sweep: "1..16", "1,2,4..128", "3,5,7".

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "cli/outcome.hpp"

namespace penstock {

/// Returns the numbers of `text` in ascending order, without duplicates. Commas separate numbers. Each number
/// must be at least `least` and below 2^31. `..` inserts the numbers up to the number after it:
///
/// - "1..4" is 1 2 3 4, because a single number continues by 1;
/// - "1,2,4..16" is 1 2 4 8 16, because the last three numbers have a common ratio;
/// - "1,3..9" is 1 3 5 7 9, because otherwise the last difference is repeated.
///
/// The last number is left out if no step reaches it exactly. An error says what was expected and what was
/// found. More than 100,000 numbers are also an error.
tl::expected<std::vector<std::int32_t>, std::string> parse_number_list(std::string_view text,
                                                                       std::int32_t least = 1);

/// Reads the list of numbers that a flag states (see parse_number_list()). An empty text gives an empty
/// list. Error messages begin with the name of the flag.
tl::expected<std::vector<std::int32_t>, UserError> numbers_of_flag(std::string_view flag,
                                                                   const std::string& text,
                                                                   std::int32_t least = 1);

}  // namespace penstock

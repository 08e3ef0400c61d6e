#pragma once
// Comparisons as HTML pages that need no other file.

#include <string>
#include <vector>

#include "report/compare/compare.hpp"

namespace penstock {

/// Returns the page of one comparison: verdict, figures, both timelines on one time axis, errors by rank and
/// by kind. Each action's tooltip shows its predicted and its measured times. `pair` has the compared
/// results.
std::string comparison_to_html(const Comparison& comparison, const ResultPair& pair);

/// Returns the page of several comparisons: the ranking, then the timelines of each pair. Requires as many
/// pairs as comparisons.
std::string comparisons_to_html(const std::vector<Comparison>& comparisons,
                                const std::vector<ResultPair>& pairs, const Ranking& ranking);

}  // namespace penstock

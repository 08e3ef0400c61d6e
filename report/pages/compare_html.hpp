#pragma once
// Writes comparisons as HTML pages. A page needs no other file.

#include <string>
#include <vector>

#include "report/compare/compare.hpp"

namespace penstock {

/// Returns the page of one comparison. It shows the verdict, the figures, both timelines on one time axis,
/// and the errors by rank and by kind. Each action's tooltip shows its predicted and its measured times.
/// `pair` holds the two compared results.
std::string comparison_to_html(const Comparison& comparison, const ResultPair& pair);

/// Returns the page of several comparisons. It shows the ranking, and then the timelines of each pair.
/// Requires one pair for each comparison, in the same order.
std::string comparisons_to_html(const std::vector<Comparison>& comparisons,
                                const std::vector<ResultPair>& pairs, const Ranking& ranking);

}  // namespace penstock

#pragma once
// Comparisons as a self-contained HTML page.

#include <string>
#include <vector>

#include "report/compare/compare.hpp"

namespace penstock {

/// Verdict, figures, both timelines over each other on one axis of time (each action's tooltip says what was
/// predicted and measured of it), errors by rank and by kind. `pair` is what was compared.
std::string comparison_to_html(const Comparison& comparison, const ResultPair& pair);

/// The ranking, then the timelines of each pair. As many pairs as comparisons.
std::string comparisons_to_html(const std::vector<Comparison>& comparisons,
                                const std::vector<ResultPair>& pairs, const Ranking& ranking);

}  // namespace penstock

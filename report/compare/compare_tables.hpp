#pragma once
// The tables and sentences of comparisons, for compare_text.cpp and compare_html.cpp.

#include <string>
#include <vector>

#include "report/compare/compare.hpp"
#include "report/print/table.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// Each figure with its error, tolerance and verdict.
Table compared_figures(const Comparison& comparison);
/// Where each rank's error comes from, and its memory where the measurement has it.
Table rank_errors(const Comparison& comparison);
/// A row a kind of action.
Table action_errors(const Comparison& comparison);
/// "error of the iteration time +1 ms: compute ..., launch ..."
std::string parts_sentence(const Comparison& comparison);

/// A row a comparison.
Table comparison_overview(const std::vector<Comparison>& comparisons);
/// A row a run, the fastest measured first.
Table ranking_rows(const Ranking& ranking);
/// "ranked right: 3 of 3 pairs ..."
std::string ranking_sentence(const Ranking& ranking);
/// "gpipe, K = 4, M = 8 was measured to be faster than ... by ..., and predicted to be slower by ..."
std::vector<std::string> wrong_ranks(const Ranking& ranking);

/// "+1.5 ms", "-20 us"
std::string signed_duration(Ns duration_ns);
/// Whether the figure has values beside its error.
bool has_values(const ComparedFigure& figure);

}  // namespace penstock

#pragma once
// Writes the tables and sentences of comparisons. comparison_to_table() and compare_html.cpp use these
// functions.

#include <string>
#include <vector>

#include "report/compare/compare.hpp"
#include "report/print/table.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// Returns a table with one row for each figure: both values, the error, the tolerance, and whether the
/// error is accepted.
Table compared_figures(const Comparison& comparison);
/// Returns a table with one row per rank: the parts of its error, and its memory if that was measured.
Table rank_errors(const Comparison& comparison);
/// Returns a table with one row per kind of action: its durations and start errors.
Table action_errors(const Comparison& comparison);
/// Returns a sentence about the parts of the error, such as "error of the iteration time +1 ms: compute
/// ..., launch ...".
std::string parts_sentence(const Comparison& comparison);

/// Returns a table with one row per comparison.
Table comparison_overview(const std::vector<Comparison>& comparisons);
/// Returns a table with one row per run. The run with the fastest measurement comes first.
Table ranking_rows(const Ranking& ranking);
/// Returns a sentence that counts the pairs in the right order, such as "ranked right: 3 of 3 pairs ...".
std::string ranking_sentence(const Ranking& ranking);
/// Returns one sentence for each wrong pair, such as "gpipe, K = 4, M = 8 was measured to be faster than ...
/// by ..., and predicted to be slower by ...".
std::vector<std::string> wrong_ranks(const Ranking& ranking);

/// Returns a duration with its sign: "+1.5 ms", "-20 us".
std::string signed_duration(Ns duration_ns);
/// Returns true if the figure has a predicted and a measured value. A figure about single actions has only
/// an error.
bool has_values(const ComparedFigure& figure);

}  // namespace penstock

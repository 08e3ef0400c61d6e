#pragma once
// Writes reports as HTML pages. Styles, pictures and scripts are inside each page, so it needs no other file.

#include <string>
#include <vector>

#include "report/compare/compare.hpp"
#include "report/result/result.hpp"
#include "report/result/sweep_table.hpp"
#include "report/why/explanation.hpp"

namespace penstock {

/// Returns the page of one result: its main figures, the causes of its idle time, its timeline, and tables.
/// `why` is null if the idle time is not explained.
std::string result_to_html(const Result& result, const Explanation* why = nullptr);

/// Returns the page of a sweep. It shows the best configurations. For each schedule, it shows throughput
/// and bubble against M, with one curve for each K. It also shows a map of the shapes that fit into memory.
/// Tables list all points, and the skipped points with the reasons.
std::string sweep_to_html(const Sweep& sweep);

/// The explanations of the two runs that are compared. A null pointer means that a run is not explained.
struct ExplainedPair {
  const Explanation* predicted = nullptr;
  const Explanation* measured = nullptr;
};

/// Returns the page of one comparison. It shows the verdict, the figures, both timelines on one time axis,
/// and the errors by rank and by kind. Pointing at an action shows its predicted and its measured times.
/// `pair` holds the two compared results.
std::string comparison_to_html(const Comparison& comparison, const ResultPair& pair,
                               const ExplainedPair& why = {});

/// Returns the page of several comparisons. It shows the ranking, and then the timelines of each pair.
/// Requires one pair for each comparison, in the same order.
std::string comparisons_to_html(const std::vector<Comparison>& comparisons,
                                const std::vector<ResultPair>& pairs, const Ranking& ranking);

}  // namespace penstock

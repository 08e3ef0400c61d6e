#pragma once
// Writes the answer of `penstock reproduce` as text, JSON and Markdown.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "sim/published/reproduce.hpp"

namespace penstock {

/// A published experiment that was reproduced, with its figures.
struct Reproduced {
  Reproduction reproduction;
  std::vector<ReproducedFigure> figures;

  /// Returns true if every reproduced figure agrees with the published value within its tolerance or bound.
  bool holds() const { return std::ranges::all_of(figures, &ReproducedFigure::holds); }
};

/// Returns a table for each experiment, then the figures that do not agree with the published values, and
/// then the tolerances with their reasons. The last line counts the figures and the misses. `width` is the
/// wanted length of lines in characters; 0 means no limit.
std::string reproductions_to_text(const std::vector<Reproduced>& all, std::size_t width = 0);
/// Returns a table with a line for each experiment, then the figures that do not agree with the published
/// values. The last line is that of reproductions_to_text().
std::string reproductions_overview(const std::vector<Reproduced>& all, std::size_t width = 0);
/// Returns a JSON document with all figures, the experiments and the counts.
std::string reproductions_to_json(const std::vector<Reproduced>& all);
/// Returns a Markdown text. It has tables of the experiments, the tolerances and the figures that do not
/// agree, and then a section for each experiment.
std::string reproductions_to_markdown(const std::vector<Reproduced>& all);

}  // namespace penstock

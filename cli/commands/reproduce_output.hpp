#pragma once
// The answer of `penstock reproduce` as text, JSON and Markdown.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "sim/published/reproduce.hpp"

namespace penstock {

/// An experiment with its figures.
struct Reproduced {
  Reproduction reproduction;
  std::vector<ReproducedFigure> figures;

  /// Returns whether every figure meets its claim.
  bool holds() const { return std::ranges::all_of(figures, &ReproducedFigure::holds); }
};

/// Returns a table for each experiment, the misses, the tolerances with their reasons, and a last line that
/// counts. Lines keep to `width` columns where that is possible; 0 means any width.
std::string reproductions_to_text(const std::vector<Reproduced>& all, std::size_t width = 0);
/// Returns a document with a list of all figures, the experiments and the counts.
std::string reproductions_to_json(const std::vector<Reproduced>& all);
/// Returns tables of experiments, tolerances and misses, and then a section for each experiment.
std::string reproductions_to_markdown(const std::vector<Reproduced>& all);

}  // namespace penstock

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

  bool holds() const { return std::ranges::all_of(figures, &ReproducedFigure::holds); }
};

/// A table an experiment, whose lines keep to `width` columns where that can be; 0: any width.
std::string reproductions_to_text(const std::vector<Reproduced>& all, std::size_t width = 0);
std::string reproductions_to_json(const std::vector<Reproduced>& all);
/// A section an experiment, after a table of them all.
std::string reproductions_to_markdown(const std::vector<Reproduced>& all);

}  // namespace penstock

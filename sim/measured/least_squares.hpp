#pragma once
// Linear least squares under the condition that no value of the solution is negative.

#include <cstddef>
#include <utility>
#include <vector>

namespace penstock {

/// One equation: the sum of its terms should equal `value`.
struct LinearEquation {
  std::vector<std::pair<std::size_t, double>> terms;  ///< number of the unknown, from 0, and its coefficient
  double value = 0;
};

/// Returns the x >= 0 that minimises the sum of (terms(x) - value)^2, as a vector of `unknowns` elements. Of
/// several solutions it returns one with few elements above 0. Requires that all unknowns in the equations
/// are below `unknowns`.
std::vector<double> non_negative_least_squares(const std::vector<LinearEquation>& equations,
                                               std::size_t unknowns);

/// Returns the rank of the equations: the number of unknowns that they determine.
std::size_t identifiable_unknowns(const std::vector<LinearEquation>& equations, std::size_t unknowns);

}  // namespace penstock

#pragma once
// Linear least squares whose solution is not negative.

#include <cstddef>
#include <utility>
#include <vector>

namespace penstock {

/// One equation: the terms' sum should be `value`.
struct LinearEquation {
  std::vector<std::pair<std::size_t, double>> terms;  ///< unknown from 0, coefficient
  double value = 0;
};

/// The x >= 0 that makes the sum of (terms(x) - value)^2 least; where several do, one with few that are not
/// 0. `unknowns` of them. Requires unknowns named below `unknowns`.
std::vector<double> non_negative_least_squares(const std::vector<LinearEquation>& equations,
                                               std::size_t unknowns);

/// How many unknowns the equations tell apart: their rank.
std::size_t told_unknowns(const std::vector<LinearEquation>& equations, std::size_t unknowns);

}  // namespace penstock

// Solves linear least squares with no value below 0, by Lawson and Hanson, Solving Least Squares Problems
// (1974), chapter 23. A set P of unknowns may be above 0, the others are 0:
//
//     while some unknown outside P would make the residual smaller (gradient A^T (b - A x) > 0)
//       take the one with the steepest gradient into P, s = the least squares of P alone
//       while s has an unknown of P that is not above 0
//         go from x towards s until the first of them is 0, drop it from P, s = the least squares of P
//       x = s
//
// Columns are scaled to length 1, so the gradients do not depend on units. Eigen's QR with pivots solves the
// inner problems, because columns of nearly the same direction are common here. Tests:
// tests/sim/fit_iterations_test.cpp.

#include "sim/measured/least_squares.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include <Eigen/Dense>

namespace penstock {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

/// Tolerance below which gradients and values count as 0, relative to the length of the right side.
constexpr double kNothing = 1e-12;

/// The equations, with every column scaled to length 1 (or 0).
struct System {
  MatrixXd columns;
  VectorXd values;
  VectorXd lengths;
};

System system_of(const std::vector<LinearEquation>& equations, std::size_t unknowns) {
  const auto rows = static_cast<Index>(equations.size());
  System system{.columns = MatrixXd::Zero(rows, static_cast<Index>(unknowns)),
                .values = VectorXd(rows),
                .lengths = VectorXd(static_cast<Index>(unknowns))};
  for (Index row = 0; row < rows; ++row) {
    const LinearEquation& equation = equations[static_cast<std::size_t>(row)];
    // An equation may name an unknown several times.
    for (const auto& [unknown, coefficient] : equation.terms)
      system.columns(row, static_cast<Index>(unknown)) += coefficient;
    system.values(row) = equation.value;
  }
  for (Index column = 0; column < system.columns.cols(); ++column) {
    const double length = system.columns.col(column).norm();
    system.lengths(column) = length;
    // An unknown that no equation names has a column of zeros and stays 0.
    if (length > 0) system.columns.col(column) /= length;
  }
  return system;
}

/// Returns the least squares of the unknowns in `passive`, with all others 0.
VectorXd solved(const System& system, const std::vector<Index>& passive) {
  MatrixXd part(system.columns.rows(), static_cast<Index>(passive.size()));
  for (std::size_t i = 0; i < passive.size(); ++i)
    part.col(static_cast<Index>(i)) = system.columns.col(passive[i]);
  const VectorXd values = part.colPivHouseholderQr().solve(system.values);
  VectorXd all = VectorXd::Zero(system.columns.cols());
  for (std::size_t i = 0; i < passive.size(); ++i) all(passive[i]) = values(static_cast<Index>(i));
  return all;
}

/// Returns the unknown outside `passive` with the steepest gradient, or nothing if no gradient is above the
/// tolerance.
std::optional<Index> steepest(const System& system, const VectorXd& at, const std::vector<Index>& passive) {
  VectorXd gradient = system.columns.transpose() * (system.values - system.columns * at);
  for (const Index unknown : passive) gradient(unknown) = -std::numeric_limits<double>::infinity();
  Index best = 0;
  if (gradient.size() == 0 || gradient.maxCoeff(&best) <= kNothing * system.values.norm())
    return std::nullopt;
  return best;
}

/// Moves from `at` towards `target`, but only until the first unknown of `passive` reaches 0. Removes the
/// unknowns that reach 0 from `passive`.
VectorXd within_bounds(const VectorXd& at, const VectorXd& target, std::vector<Index>& passive) {
  double part = 1;
  for (const Index unknown : passive) {
    if (target(unknown) <= 0) part = std::min(part, at(unknown) / (at(unknown) - target(unknown)));
  }
  // If part < 1, an unknown would cross 0. The first one to do so is now 0 up to rounding.
  VectorXd moved = at + part * (target - at);
  std::erase_if(passive, [&](Index unknown) {
    const bool is_nothing = target(unknown) <= 0 && moved(unknown) <= kNothing;
    if (is_nothing) moved(unknown) = 0;
    return is_nothing;
  });
  return moved;
}

}  // namespace

std::vector<double> non_negative_least_squares(const std::vector<LinearEquation>& equations,
                                               std::size_t unknowns) {
  const System system = system_of(equations, unknowns);
  VectorXd at = VectorXd::Zero(static_cast<Index>(unknowns));
  std::vector<Index> passive;
  // Each round ends with another set and a smaller residual. The limit stops cycles that rounding could
  // cause.
  for (std::size_t round = 0; round < 3 * unknowns; ++round) {
    const auto next = steepest(system, at, passive);
    if (!next) break;
    passive.push_back(*next);
    VectorXd target = solved(system, passive);
    // According to the gradient, this unknown rises from 0. If it does not rise, the gradient was only
    // rounding.
    if (target(*next) <= 0) break;
    while (std::ranges::any_of(passive, [&](Index unknown) { return target(unknown) <= 0; })) {
      at = within_bounds(at, target, passive);
      target = solved(system, passive);
    }
    // All unknowns of the set are above 0, so the best point of the set is valid.
    at = target;
  }
  std::vector<double> answer(unknowns, 0);
  for (const Index unknown : passive)
    answer[static_cast<std::size_t>(unknown)] = at(unknown) / system.lengths(unknown);
  return answer;
}

std::size_t identifiable_unknowns(const std::vector<LinearEquation>& equations, std::size_t unknowns) {
  // Columns have length 1, so a pivot below this means a combination of other columns.
  constexpr double kTolerance = 1e-9;
  auto factors = system_of(equations, unknowns).columns.colPivHouseholderQr();
  factors.setThreshold(kTolerance);
  return static_cast<std::size_t>(factors.rank());
}

}  // namespace penstock

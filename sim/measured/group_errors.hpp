#pragma once
// Sums of prediction errors by group. Used only in this folder.

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "sim/measured/predicted_runs.hpp"

namespace penstock {

/// Sums the errors of one group.
class GroupErrors {
 public:
  void add(double error) {
    ++rows_;
    absolute_ += std::abs(error);
    sum_ += error;
    if (std::abs(error) > std::abs(worst_)) worst_ = error;
  }
  /// Returns the mean, the bias and the worst of the errors. Requires at least one error.
  RunGroup named(std::string name) const {
    const auto n = static_cast<double>(rows_);
    return {.name = std::move(name), .rows = rows_, .mape = absolute_ / n, .bias = sum_ / n, .worst = worst_};
  }
  bool empty() const { return rows_ == 0; }

 private:
  std::size_t rows_ = 0;
  double absolute_ = 0;
  double sum_ = 0;
  double worst_ = 0;
};

/// The errors of rows, by the names of their groups, in the order of the groups' first rows. A file has about
/// a dozen groups, so a linear search for the name is fast enough.
class ErrorsByGroup {
 public:
  void add(const std::string& name, double error) {
    for (auto& [known, errors] : groups_) {
      if (known == name) return errors.add(error);
    }
    groups_.emplace_back(name, GroupErrors{}).second.add(error);
  }
  std::vector<RunGroup> groups() const {
    std::vector<RunGroup> named;
    named.reserve(groups_.size());
    for (const auto& [name, errors] : groups_) named.push_back(errors.named(name));
    return named;
  }

 private:
  std::vector<std::pair<std::string, GroupErrors>> groups_;
};

}  // namespace penstock

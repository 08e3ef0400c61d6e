#pragma once
// Compares measured configurations with the best one that the search finds for the same model, devices and
// batch.

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/measured/measured_runs.hpp"

namespace penstock {

/// One value of a configuration.
struct ChosenValue {
  std::string_view choice;  ///< name of the choice in kChoices
  std::string value;
  /// Relative increase of the step: the best step with this value over the best of all, minus 1. Absent if
  /// nothing with this value fits.
  std::optional<double> longer;
};

struct AgainstBest {
  std::string id;
  bool in_space = false;  ///< tuning_space() has the configuration
  Ns step_ns = 0;
  Ns best_ns = 0;
  std::string best_differs;  ///< the values in which the best one differs: "tensor 8, micro_batch_size 4"
  std::vector<ChosenValue> values;  ///< the most costly value first

  double longer() const { return static_cast<double>(step_ns) / static_cast<double>(best_ns) - 1; }
};

/// A function that is called with the number of runs that are compared, and of all runs.
using AgainstBestProgress = std::function<void(std::size_t done, std::size_t all)>;

/// Compares each run, with the devices' own constants. Runs with the same question share one search. Errors:
/// the errors of tune() and of simulate_scenario(), with the run's id in front.
tl::expected<std::vector<AgainstBest>, std::string> against_best(std::span<const MeasuredRun> runs,
                                                                 const AgainstBestProgress& progress = {});

}  // namespace penstock

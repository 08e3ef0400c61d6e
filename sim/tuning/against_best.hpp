#pragma once
// Configurations that others ran, beside the best that the search finds for their model, devices and batch.

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

/// A value that a configuration has chosen.
struct ChosenValue {
  std::string_view choice;  ///< as kChoices has it
  std::string value;
  /// By how much the best step with it is longer than the best of all, as a part of that; absent: nothing
  /// with it fits.
  std::optional<double> longer;
};

struct AgainstBest {
  std::string id;
  bool in_space = false;  ///< tuning_space() has the configuration
  Ns step_ns = 0;
  Ns best_ns = 0;
  std::string best_differs;         ///< what the best chooses otherwise: "tensor 8, micro_batch_size 4"
  std::vector<ChosenValue> values;  ///< the most costly first

  double longer() const { return static_cast<double>(step_ns) / static_cast<double>(best_ns) - 1; }
};

/// So many of so many runs are compared.
using AgainstBestProgress = std::function<void(std::size_t done, std::size_t all)>;

/// By run, with the devices' own constants. Searches once for runs that ask the same. Errors: those of tune()
/// and of simulate_scenario(), with the run's id in front.
tl::expected<std::vector<AgainstBest>, std::string> against_best(std::span<const MeasuredRun> runs,
                                                                 const AgainstBestProgress& progress = {});

}  // namespace penstock

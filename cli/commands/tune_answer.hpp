#pragma once
// The answer of `penstock tune` with its question. Its text, its files and its page are made of it.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/tuning/accuracy_groups.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/sensitivity.hpp"
#include "sim/tuning/tune.hpp"

namespace penstock {

/// An answer with its question.
struct TuneAnswer {
  TuneRequest request;
  TuneReport report;
  std::size_t top = 10;                      ///< requested rows of a table of configurations
  double seconds = 0;                        ///< time of the search
  std::optional<double> tokens{};            ///< tokens of the whole training
  std::optional<AccuracyGroups> accuracy{};  ///< absent if the search was interrupted
  std::vector<SensitivityRow> sensitivity{};
  /// The gain by overlapping the tensor collectives of the best one. Present only with a launcher, and if the
  /// best one overlaps them.
  std::optional<TensorOverlapWorth> overlap{};
  std::string launch{};  ///< the launcher's name and arguments for the best one
};

double step_seconds(const TunedConfiguration& tuned);
/// Returns tokens per second and device relative to the best one, minus 1.
double gain_against(const TunedConfiguration& tuned, const TunedConfiguration& best);
/// Returns the seconds of training all tokens, whose number must be known.
double training_seconds(const TuneAnswer& answer, const TunedConfiguration& tuned);
/// Returns the cost of this on all devices, or nothing if the tokens or the price of a device are unknown.
std::optional<double> training_cost(const TuneAnswer& answer, const TunedConfiguration& tuned);
/// Returns how layers are divided, as a scenario states it.
std::string split_text(const TuneRequest& request, const Configuration& of);
/// Returns split_text(), followed by the layers of each stage if they are balanced. Equal neighbours are
/// counted: "balanced 4 5 4*5 3".
std::string layers_text(const TuneRequest& request, const TunedConfiguration& tuned);

}  // namespace penstock

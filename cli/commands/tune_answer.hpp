#pragma once
// The answer of `penstock tune`, together with the question. Its text, files and HTML page are made from it.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/tuning/accuracy_groups.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/sensitivity.hpp"
#include "sim/tuning/tune.hpp"

namespace penstock {

/// The answer of a search, together with the request.
struct TuneAnswer {
  TuneRequest request;
  TuneReport report;
  std::size_t top = 10;            ///< the number of configurations that a table lists
  double seconds = 0;              ///< the time that the search took
  std::optional<double> tokens{};  ///< the number of tokens of the whole training; absent if not given
  /// the accuracy of predictions; absent if the search was interrupted
  std::optional<AccuracyGroups> accuracy{};
  std::vector<SensitivityRow> sensitivity{};
  /// The gain from overlapping the tensor collectives of the best configuration. It is present only if a
  /// launcher was chosen and the best configuration overlaps these collectives.
  std::optional<TensorOverlapWorth> overlap{};
  std::string launch{};  ///< the launcher's name and its arguments for the best configuration
};

double step_seconds(const TunedConfiguration& tuned);
/// Returns how many tokens per second and device `tuned` has relative to `best`, minus 1.
double gain_against(const TunedConfiguration& tuned, const TunedConfiguration& best);
/// Returns the seconds that training on all tokens takes. Requires that answer.tokens is present.
double training_seconds(const TuneAnswer& answer, const TunedConfiguration& tuned);
/// Returns the cost of training on all tokens with all devices. Returns nothing if the number of tokens or
/// the price of a device is unknown.
std::optional<double> training_cost(const TuneAnswer& answer, const TunedConfiguration& tuned);
/// Returns how the layers are divided into stages, in the words of a scenario file.
std::string split_text(const TuneRequest& request, const Configuration& of);
/// Returns split_text(). If the split is balanced, the number of layers of each stage follows. Equal
/// neighbours are counted: "balanced 4 5 4*5 3".
std::string layers_text(const TuneRequest& request, const TunedConfiguration& tuned);

}  // namespace penstock

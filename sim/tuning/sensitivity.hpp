#pragma once
// Finds the best configurations for machines that differ in one figure from the requested machine. Also finds
// the loss of the requested machine's best configuration on them. `penstock tune --sensitivity` prints both.

#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "sim/tuning/configuration.hpp"
#include "sim/tuning/tune.hpp"

namespace penstock {

/// A machine with one figure changed.
struct SensitivityRow {
  std::string_view figure;  ///< "memory", "sustained rate", "network bandwidth" or "rate of collectives"
  double factor = 1;        ///< factor by which the device's figure is multiplied
  /// Best configuration on that machine; this machine's best one if the search finds no better one.
  TunedConfiguration best;
  /// Tokens per second of this machine's best configuration there, divided by the tokens per second of
  /// `best`, minus 1; at most 0. Absent if it does not fit.
  std::optional<double> loss{};
};

/// Returns a row for half and for twice each figure. `best` must be the best configuration of the request.
/// Errors: the errors of tune().
tl::expected<std::vector<SensitivityRow>, std::string> sensitivity(const TuneRequest& request,
                                                                   const TunedConfiguration& best);

/// The value of the overlap of tensor collectives, which needs tuned kernels that a user may not have.
struct TensorOverlapWorth {
  TunedConfiguration same;  ///< the best configuration, run without the overlap
  TunedConfiguration best;  ///< the best configuration that runs without the overlap
};

/// Compares the best configuration with and without the overlap of tensor collectives. Returns nothing if it
/// overlaps none. Errors: the errors of tune().
tl::expected<std::optional<TensorOverlapWorth>, std::string> tensor_overlap_worth(
    const TuneRequest& request, const TunedConfiguration& best);

}  // namespace penstock

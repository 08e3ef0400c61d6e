#pragma once
// Which configuration is best on other machines than the one that is asked for, and what the best one of this
// machine loses there. Printed by `penstock tune --sensitivity`.

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
  std::string_view figure;  ///< "memory", "sustained rate", "network bandwidth", "rate of collectives"
  double factor = 1;        ///< times what the device has
  TunedConfiguration best;  ///< there; this machine's best configuration where the search finds no better one
  /// Tokens per second of this machine's best configuration over those of `best`, less one: at most 0;
  /// nothing where it does not fit.
  std::optional<double> loss{};
};

/// Half and twice each figure. `best` is the request's. Errors: those of tune().
tl::expected<std::vector<SensitivityRow>, std::string> sensitivity(const TuneRequest& request,
                                                                   const TunedConfiguration& best);

/// What the overlap of tensor collectives is worth, which asks for tuning that a user may not have.
struct TensorOverlapWorth {
  TunedConfiguration same;  ///< the best configuration, run without the overlap
  TunedConfiguration best;  ///< of those that run without it
};

/// Returns nothing where the best configuration overlaps no tensor collectives. Errors: those of tune().
tl::expected<std::optional<TensorOverlapWorth>, std::string> tensor_overlap_worth(
    const TuneRequest& request, const TunedConfiguration& best);

}  // namespace penstock

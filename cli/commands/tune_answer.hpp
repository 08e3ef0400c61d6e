#pragma once
// What `penstock tune` has found, with what was asked: what its text, its files and its page are made of.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/tuning/configuration.hpp"
#include "sim/tuning/sensitivity.hpp"
#include "sim/tuning/told_apart.hpp"
#include "sim/tuning/tune.hpp"

namespace penstock {

/// An answer with what was asked.
struct TuneAnswer {
  TuneRequest request;
  TuneReport report;
  std::size_t top = 10;             ///< rows of a table of configurations, as asked for
  double seconds = 0;               ///< that the search took
  std::optional<double> tokens{};   ///< to be trained in all
  std::optional<ToldApart> told{};  ///< nothing where the search was interrupted
  std::vector<SensitivityRow> sensitivity{};
  /// With a launcher: what the best one's overlap of tensor collectives is worth, where it has any.
  std::optional<TensorOverlapWorth> overlap{};
  std::string launch{};  ///< the launcher's name and arguments, for the best one
};

double step_seconds(const TunedConfiguration& tuned);
/// Tokens per second and device over the best one's, less one.
double gain_against(const TunedConfiguration& tuned, const TunedConfiguration& best);
/// Seconds of training all tokens, which must be known.
double training_seconds(const TuneAnswer& answer, const TunedConfiguration& tuned);
/// What that costs on all devices; nothing where tokens or the price of a device are unknown.
std::optional<double> training_cost(const TuneAnswer& answer, const TunedConfiguration& tuned);
/// How layers are shared out, as a scenario states it.
std::string split_text(const TuneRequest& request, const Configuration& of);
/// Returns the same with the layers of each stage where they are balanced, equal neighbours counted:
/// "balanced 4 5 4*5 3".
std::string layers_text(const TuneRequest& request, const TunedConfiguration& tuned);

}  // namespace penstock

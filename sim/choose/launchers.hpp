#pragma once
// The frameworks that can run a configuration: the arguments that each of them needs, and the configurations
// that it cannot run.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/pricing/workload.hpp"
#include "sim/choose/configuration.hpp"

namespace penstock {

/// Returns the release of the framework for which the arguments are valid.
std::string_view release_of(Launcher launcher);

/// A configuration that a launcher shall run. The object stores references, whose targets must outlive it.
struct LaunchedRun {
  const TuneRequest& request;
  const Configuration& of;
  const Workload& work;  ///< workload with the configuration's choices
};

/// The answer of one launcher for one assumption.
struct LauncherAnswer {
  /// Returns the reason why the launcher cannot meet the assumption, or an empty text if it can.
  std::string (*lacks)(const LaunchedRun&);
  /// Returns the arguments that meet the assumption. Requires that `lacks` returns an empty text.
  std::vector<std::string> (*arguments)(const LaunchedRun&);
};

/// An assumption of the prediction. A run meets it only with the right arguments.
struct LaunchAssumption {
  std::string_view name;  ///< for example "tensor overlap"
  LauncherAnswer megatron;
  LauncherAnswer torchtitan;
};

/// Returns all assumptions, in the order of the arguments on the command line.
std::span<const LaunchAssumption> launch_assumptions();

/// Returns the reason why the launcher cannot run the configuration as it is predicted: the first assumption
/// that it cannot meet. Returns an empty text if it can meet all of them. `run.work` must have the
/// configuration's choices.
std::string beyond_launcher(Launcher launcher, const LaunchedRun& run);

/// Returns the arguments with which the launcher runs the configuration as predicted, one on each line.
/// Comments above them name the release and state what no argument can express. The user adds the model and
/// the data. Requires a configuration that the launcher can run.
std::string launch_arguments(Launcher launcher, const TuneRequest& request,
                             const Configuration& configuration);

}  // namespace penstock

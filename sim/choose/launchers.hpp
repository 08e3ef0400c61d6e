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

/// Returns the release of the framework for which the arguments of launch_arguments() are valid.
std::string_view release_of(Launcher launcher);

/// A configuration and the launcher's other inputs. The object stores references, whose targets must
/// outlive it.
struct LaunchedRun {
  const TuneRequest& request;
  const Configuration& of;
  const Workload& work;  ///< workload with the configuration's choices
};

/// The functions that tell how one launcher meets one assumption of the prediction.
struct LauncherAnswer {
  /// Returns the reason why the launcher cannot meet the assumption, or an empty text if it can.
  std::string (*lacks)(const LaunchedRun&);
  /// Returns the arguments that meet the assumption. Requires that `lacks` returns an empty text.
  std::vector<std::string> (*arguments)(const LaunchedRun&);
};

/// An assumption that the prediction makes. A real run meets it only if the launcher gets the right
/// arguments.
struct LaunchAssumption {
  std::string_view name;  ///< for example "tensor overlap"
  LauncherAnswer megatron;
  LauncherAnswer torchtitan;
};

/// Returns all assumptions of the prediction, in the order of their arguments on the command line.
std::span<const LaunchAssumption> launch_assumptions();

/// Returns the reason why the launcher cannot run the configuration as it is predicted: the first assumption
/// that it cannot meet. Returns an empty text if it can meet all of them. `run.work` must have the
/// configuration's choices.
std::string beyond_launcher(Launcher launcher, const LaunchedRun& run);

/// Returns the command with which the launcher runs the configuration as predicted: torchrun, the launcher's
/// script and its arguments, one on each line.
/// Comments above them name the release and state what no argument can express. The user adds the model and
/// the data. Requires a configuration that the launcher can run.
std::string launch_arguments(Launcher launcher, const TuneRequest& request,
                             const Configuration& configuration);

}  // namespace penstock

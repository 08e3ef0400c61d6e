#pragma once
// Frameworks that can run a configuration: the arguments that each framework needs, and what it cannot run.

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

/// A configuration for a launcher. It stores references, which must outlive it.
struct LaunchedRun {
  const TuneRequest& request;
  const Configuration& of;
  const Workload& work;  ///< workload with the configuration's choices
};

/// How one launcher meets one assumption.
struct LauncherAnswer {
  /// Returns why the launcher cannot meet the assumption, or an empty text if it can.
  std::string (*lacks)(const LaunchedRun&);
  /// Returns the arguments that meet the assumption. Requires that `lacks` returns an empty text.
  std::vector<std::string> (*arguments)(const LaunchedRun&);
};

/// An assumption of a price. A run meets it only with the right arguments.
struct LaunchAssumption {
  std::string_view name;  ///< for example "tensor overlap"
  LauncherAnswer megatron;
  LauncherAnswer torchtitan;
};

/// Returns all assumptions, in the order in which arguments are written.
std::span<const LaunchAssumption> launch_assumptions();

/// Returns why the launcher cannot run the configuration as it is priced: the first assumption that it does
/// not meet. Returns an empty text if it meets all. `run.work` must have the configuration's choices.
std::string beyond_launcher(Launcher launcher, const LaunchedRun& run);

/// Returns the command line with which the launcher runs what was priced, one argument a line. Comments above
/// it name the release and state what no argument can express. The user adds the model and the data. Requires
/// a configuration of the launcher's space.
std::string launch_arguments(Launcher launcher, const TuneRequest& request,
                             const Configuration& configuration);

}  // namespace penstock

#pragma once
// Frameworks that run what a search finds: what each of them must be told, and what it cannot run.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/pricing/workload.hpp"
#include "sim/tuning/configuration.hpp"

namespace penstock {

/// Returns the release whose arguments are known.
std::string_view release_of(Launcher launcher);

/// A configuration on its way to a launcher. All three outlive it.
struct LaunchedRun {
  const TuneRequest& request;
  const Configuration& of;
  const Workload& work;  ///< with the configuration's choices
};

/// What one launcher makes of one assumption.
struct LauncherAnswer {
  /// Returns why the launcher cannot run what is assumed; empty where it can.
  std::string (*lacks)(const LaunchedRun&);
  /// Returns the arguments that say what is assumed. Requires that nothing is lacking.
  std::vector<std::string> (*arguments)(const LaunchedRun&);
};

/// Something that a price assumes of a run, and that the run does only if it is told so.
struct LaunchAssumption {
  std::string_view name;  ///< "tensor overlap"
  LauncherAnswer megatron;
  LauncherAnswer torchtitan;
};

/// All assumptions, in the order in which arguments are written.
std::span<const LaunchAssumption> launch_assumptions();

/// Returns why the launcher cannot run the configuration as it is priced: the first assumption that it cannot
/// keep. Empty where it can run it. `work` has the configuration's choices.
std::string beyond_launcher(Launcher launcher, const LaunchedRun& run);

/// Returns the command line that makes the launcher run what was priced, an argument a line, below a comment
/// with its release and others with what no argument says. Model and data are the user's own. Requires a
/// configuration of the launcher's space.
std::string launch_arguments(Launcher launcher, const TuneRequest& request,
                             const Configuration& configuration);

}  // namespace penstock

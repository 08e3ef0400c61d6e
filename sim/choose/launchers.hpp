#pragma once
// Frameworks that run what a search finds: the arguments that each of them needs, and what each of them
// cannot run.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/pricing/workload.hpp"
#include "sim/choose/configuration.hpp"

namespace penstock {

/// Returns the release for which the arguments are valid.
std::string_view release_of(Launcher launcher);

/// A configuration that a launcher shall run. It holds references, which must outlive it.
struct LaunchedRun {
  const TuneRequest& request;
  const Configuration& of;
  const Workload& work;  ///< has the configuration's choices
};

/// The answer of one launcher to one assumption.
struct LauncherAnswer {
  /// Returns why the launcher cannot run what is assumed, or an empty text if it can.
  std::string (*lacks)(const LaunchedRun&);
  /// Returns the arguments for what is assumed. Requires that `lacks` returns an empty text.
  std::vector<std::string> (*arguments)(const LaunchedRun&);
};

/// An assumption of a price that a run meets only with the right arguments.
struct LaunchAssumption {
  std::string_view name;  ///< for example "tensor overlap"
  LauncherAnswer megatron;
  LauncherAnswer torchtitan;
};

/// Returns all assumptions, in the order in which arguments are written.
std::span<const LaunchAssumption> launch_assumptions();

/// Returns why the launcher cannot run the configuration as it is priced: the first assumption that it cannot
/// meet. Returns an empty text if it can run it. The run's `work` must have the configuration's choices.
std::string beyond_launcher(Launcher launcher, const LaunchedRun& run);

/// Returns the command line that makes the launcher run what was priced, with one argument a line. Comments
/// above it name the release and state what no argument can express. The user adds the model and the data.
/// Requires a configuration of the launcher's space.
std::string launch_arguments(Launcher launcher, const TuneRequest& request,
                             const Configuration& configuration);

}  // namespace penstock

#pragma once
// The common part of `penstock run` and `penstock calibrate`: their flags, the choice of the executable and
// of the modules, one run with the chosen backend, and the exit code of a failed run.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/process/process_execution.hpp"
#include "cli/extensions.hpp"
#include "cli/outcome.hpp"
#include "cli/subcommand.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {

struct MeasuringFlags {
  std::string backend = "cpu-thread";
  std::int32_t warmup = 1;
  std::int32_t counted = 5;
  double time_scale = 1;
  double jitter = 0;
  std::uint64_t seed = 1;
  double deadline_seconds = 0;  ///< 0: measure() chooses
  bool occupy = false;
};

/// Words of a command's help for what it measures more than once.
struct MeasuredWords {
  std::string processes;   ///< text after "a process a rank": what may start them
  std::string warmup;      ///< for example "runs of the whole program that do not count"
  std::string count_flag;  ///< for example "--repeats"
  std::string counted;     ///< for example "runs that count"
};

/// Adds --backend, --occupy, --warmup, the flag for the count, --time-scale, --jitter, --seed and --deadline.
/// Defaults are the present values of `flags`.
void add_measuring_flags(Subcommand app, MeasuringFlags& flags, const MeasuredWords& words);

/// Returns the options of a run that is repeated as the flags say.
RunOptions run_options(const MeasuringFlags& flags);

/// Measures with the chosen backend. hand_over() must have found this executable to be the right one. `place`
/// is present if a launcher started this process as a rank of cpu-process. Returns nothing if another process
/// has the result.
tl::expected<std::optional<Result>, UserError> measure_by_backend(const Experiment& experiment,
                                                                  const MeasuringFlags& flags,
                                                                  const RunOptions& options,
                                                                  const std::optional<ProcessPlace>& place,
                                                                  const Extensions& extensions);

/// Returns nothing if this executable has the backend and can compute the experiment's network. Otherwise it
/// becomes the executable that can. If there is none, it returns the failure, which names `command`.
std::optional<UserError> hand_over(std::string_view command, const std::string& backend,
                                   const Experiment& experiment, const Invocation& invocation);

/// Returns the family of the experiment's network, or of occupy modules if it has none. hand_over() must have
/// returned nothing. The experiment must outlive the family. Error: what the network lacks.
tl::expected<std::unique_ptr<ModuleFamily>, std::string> family_of(const Experiment& experiment,
                                                                   const Jitter& jitter,
                                                                   const Extensions& extensions);

}  // namespace penstock

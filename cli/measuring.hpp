#pragma once
// The common part of `penstock run`, `penstock calibrate` and `penstock validate`: their flags, the choice
// of executable and modules, and one run with the chosen backend.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/process/process_execution.hpp"
#include "cli/executable.hpp"
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
  double deadline_seconds = 0;  ///< 0 means that measure() chooses it.
  bool occupy = false;
  std::string launch_order = "off";
  std::int32_t ranks_per_gpu = 1;
};

/// The words in the help of a command that depend on what the command measures.
struct MeasuredWords {
  std::string processes;   ///< The text after "a process a rank", which names the programs that may start the
                           ///< processes.
  std::string warmup;      ///< For example "runs of the whole program that do not count".
  std::string count_flag;  ///< For example "--repeats".
  std::string counted;     ///< For example "runs that count".
};

/// Declares --backend, --occupy, --warmup, --time-scale, --jitter, --seed, --deadline, --launch-order,
/// --ranks-per-gpu, and the flag for the number of runs that count (words.count_flag). The defaults are the
/// present values of `flags`.
void add_measuring_flags(Subcommand app, MeasuringFlags& flags, const MeasuredWords& words);

/// Returns true if the flags ask for NCCL's launch order, in which kernels start in the order of their
/// launches.
bool asks_for_launch_order(const MeasuringFlags& flags);

/// Returns the options of a run. The warm-up and the number of counted runs come from the flags.
RunOptions run_options(const MeasuringFlags& flags);

/// Measures the experiment with the backend that the flags name. Requires that hand_over() has returned
/// nothing. `place` is present if a launcher has started this process as a rank of the backend cpu-process.
/// Returns nothing if another process has the result.
tl::expected<std::optional<Result>, UserError> measure_by_backend(const Experiment& experiment,
                                                                  const MeasuringFlags& flags,
                                                                  const RunOptions& options,
                                                                  const std::optional<ProcessPlace>& place,
                                                                  const Extensions& extensions);

/// Measures one run of the experiment, after `warmup` runs that do not count. Only for commands that no
/// launcher starts. Requires that hand_over() has returned nothing.
tl::expected<Result, UserError> measure_once(const Experiment& experiment, const MeasuringFlags& flags,
                                             std::int32_t warmup, const Extensions& extensions);

/// Makes sure that an executable with the backend runs the command. Returns nothing if this executable has
/// the backend and can compute the experiment's network. Otherwise another executable replaces this
/// process. If there is no such executable, returns an error that names `command`.
std::optional<UserError> hand_over(std::string_view command, const std::string& backend,
                                   const Experiment& experiment, const Invocation& invocation);

/// Returns the module family that runs the experiment's network, or occupy modules if the experiment has no
/// network. Requires that hand_over() has returned nothing. The experiment must outlive the family. Fails
/// if the network does not fit the experiment.
tl::expected<std::unique_ptr<ModuleFamily>, std::string> family_of(const Experiment& experiment,
                                                                   const Jitter& jitter,
                                                                   const Extensions& extensions);

}  // namespace penstock

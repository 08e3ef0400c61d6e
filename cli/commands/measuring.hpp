#pragma once
// What `penstock run` and `penstock calibrate` have in common: their flags, one run by the backend that these
// name, and the exit code of a run that did not end well.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "backend/executor/measured_run.hpp"
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

/// What a command measures more than once, in the words of its help.
struct MeasuredWords {
  std::string processes;   ///< behind "a process a rank": who may start them
  std::string warmup;      ///< "runs of the whole program that do not count"
  std::string count_flag;  ///< "--repeats"
  std::string counted;     ///< "runs that count"
};

/// --backend, --occupy, --warmup, how much counts, --time-scale, --jitter, --seed, --deadline. Defaults are
/// what `flags` has.
void add_measuring_flags(Subcommand app, MeasuringFlags& flags, const MeasuredWords& words);

/// Of a run that is repeated as the flags say.
RunOptions run_options(const MeasuringFlags& flags);

/// Measures by the backend that the flags name, for which hand_over() has seen this executable to be the
/// right one. `place`: where a launcher started this process as one of cpu-process. Nothing where another
/// process has the result.
tl::expected<std::optional<Result>, RunError> measure_by_backend(const Experiment& experiment,
                                                                 const MeasuringFlags& flags,
                                                                 const RunOptions& options,
                                                                 const std::optional<ProcessPlace>& place,
                                                                 const Extensions& extensions);

/// With the exit code of its fault.
tl::unexpected<Failure> failure_of(RunError error);

}  // namespace penstock

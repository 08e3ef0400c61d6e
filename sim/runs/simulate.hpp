#pragma once
// Predicts a Result from an Experiment or a Scenario. Most callers need only this header of the simulator.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/endless_stream.hpp"
#include "sim/runs/plan_run.hpp"

namespace penstock {

enum class SteadyState : std::uint8_t { find, skip };

/// A switch for the digest of the program in the result. Finding the digest needs all actions of all lists.
enum class ProgramDigest : std::uint8_t { find, skip };

/// A switch for the note that says how certain the makespan is if links are shared. Finding it needs two
/// more runs (sharing_band()).
enum class SharingBand : std::uint8_t { skip, find };

/// A switch for the timeline of the result, which has the span of every action. The figures do not depend
/// on it.
enum class TimelineKept : std::uint8_t { all, none };

/// A function that finds the steady state of an asynchronous schedule: endless_stream(), or a function that
/// caches its results.
using StreamOf =
    std::function<std::optional<EndlessStream>(const StreamQuestion&, const Experiment&, Engine engine)>;

struct SimulateOptions {
  Engine engine = Engine::automatic;
  MemoryOptions memory;
  SteadyState steady = SteadyState::find;
  ProgramDigest digest = ProgramDigest::find;
  SharingBand band = SharingBand::skip;
  TimelineKept timeline = TimelineKept::all;  ///< must be `none` with WantedFigures::of_rows
  WantedFigures figures = WantedFigures::all;
  StreamOf stream_of = endless_stream;
};

/// Predicts the time, memory and traffic of an experiment that has lists of actions. Requires a lowered
/// program. Returns an error if the program hangs under experiment.channels.
tl::expected<Result, Hang> simulate(const Experiment& experiment, const SimulateOptions& options);

/// Lowers a compute program and predicts it with one device for each rank. Its links have the given latency
/// and unlimited bandwidth. Error: the program cannot be lowered, has too many ranks for a uniform cluster,
/// or hangs.
tl::expected<Result, std::string> simulate_uniform(const Program& program, const CostTable& costs,
                                                   Ns latency_ns, SteadyState steady);

/// The result of a scenario's run, with the steady state of its stream if the schedule is asynchronous.
struct Prediction {
  Result result;
  std::optional<EndlessStream> stream;
  std::int32_t copies = 1;  ///< number of pipeline copies if the program is one copy (TrainedModel), else 1
};

/// Prepares the scenario, plans its run (plan_run.hpp) and runs it. For an asynchronous schedule, the steady
/// rate is that of its endless stream, so it does not depend on the number of microbatches.
tl::expected<Prediction, UserError> predict(const Scenario& scenario, const SimulateOptions& options);

/// Predicts a scenario in the same way as predict(), but stores all lists and times, which is possible for
/// any scenario. Tests compare engines that store less with this function.
tl::expected<Prediction, UserError> predict_stored(const Scenario& scenario, const SimulateOptions& options);

/// Returns the outputs that a run must give, as `options` require.
Wanted wanted_by(const SimulateOptions& options);

/// Returns the plan that predict() makes before it runs. Error: one of those errors of predict() that are
/// found before the run.
tl::expected<RunPlan, UserError> planned(const Scenario& scenario, const SimulateOptions& options);

/// Returns the result of predict(), with notes. A note says if the steady state of the stream does not fit
/// in memory although the run does. Another note says if the steady rate is a mean, because the stream has
/// no period.
tl::expected<Result, UserError> simulate_scenario(const Scenario& scenario, const SimulateOptions& options);

/// Returns the rank that exceeds its device's memory by the most bytes, or the first of several such ranks.
/// Returns nothing if all ranks fit.
std::optional<std::size_t> fullest_out_of_memory(const std::vector<RankMemory>& memories);

/// Returns the largest relative change of the makespan if all compute actions take slightly more or less
/// time. `makespan_ns` is the makespan that the event engine finds. Two more runs change each duration by
/// up to 0.0001 % and up to 0.001 %. Equal inputs give equal results. Requires a program that does not
/// hang.
double sharing_band(const Experiment& experiment, Ns makespan_ns);

/// Returns a note that states the result of sharing_band(), or nothing if the result is at most 0.01 %.
std::optional<std::string> sharing_band_note(const Experiment& experiment, Ns makespan_ns);

}  // namespace penstock

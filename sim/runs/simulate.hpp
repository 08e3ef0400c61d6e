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

/// Says whether the result has a digest of its program, which requires that all lists are written out.
enum class ProgramDigest : std::uint8_t { find, skip };

/// Says whether a note states how certain the makespan is if links are shared (sharing_band()). This takes
/// two more runs.
enum class SharingBand : std::uint8_t { skip, find };

/// Says whether the result has the span of every action. No figure needs the spans.
enum class TimelineKept : std::uint8_t { all, none };

/// A function that finds the steady state of an asynchronous scenario: endless_stream(), or one that caches
/// its results.
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

/// Predicts time, memory and traffic from stored lists. Requires a lowered program. Error: the program hangs
/// under experiment.channels.
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
  std::int32_t copies = 1;  ///< number of copies of the pipeline; the program is one copy (TrainedModel)
};

/// Prepares the scenario, plans its run (plan_run.hpp) and runs it. For an asynchronous schedule, the steady
/// rate is that of its endless stream, for any number of microbatches.
tl::expected<Prediction, UserError> predict(const Scenario& scenario, const SimulateOptions& options);

/// Like predict(), but stores all lists and times, which is possible for any scenario. Engines that
/// store less are compared with it.
tl::expected<Prediction, UserError> predict_stored(const Scenario& scenario, const SimulateOptions& options);

/// Returns what the options require of a run.
Wanted wanted_by(const SimulateOptions& options);

/// Returns the plan that predict() makes before it runs. Errors: those of predict() that are known before the
/// run.
tl::expected<RunPlan, UserError> planned(const Scenario& scenario, const SimulateOptions& options);

/// Returns the result of predict(). A note says if the run fits in memory but the steady state of its stream
/// does not.
tl::expected<Result, UserError> simulate_scenario(const Scenario& scenario, const SimulateOptions& options);

/// Returns the rank that exceeds its device's memory by most, or the first of several. Returns nothing if all
/// ranks fit.
std::optional<std::size_t> fullest_out_of_memory(const std::vector<RankMemory>& memories);

/// Returns the largest relative change of the makespan if all compute actions take slightly more or less
/// time. `makespan_ns` is the makespan of event_simulation(). Two more runs change durations by up to a
/// millionth and a hundred-thousandth (1 ns and 10 ns of a millisecond). Equal inputs give equal results.
/// Requires a program that does not hang.
double sharing_band(const Experiment& experiment, Ns makespan_ns);

/// Returns a note that states the band. Returns nothing if the band is at most 0.01 %.
std::optional<std::string> sharing_band_note(const Experiment& experiment, Ns makespan_ns);

}  // namespace penstock

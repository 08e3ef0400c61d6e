#pragma once
// The simulator's front door: an Experiment (or a Scenario) in, a predicted Result out.

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

/// Whether the result names its program by a digest, for which all lists have to be spelled out.
enum class ProgramDigest : std::uint8_t { find, skip };

/// Whether a note says how sure the makespan is where links are shared (sharing_band()): two more runs.
enum class SharingBand : std::uint8_t { skip, find };

/// Whether the result holds the span of every action; no figure needs it.
enum class TimelineKept : std::uint8_t { all, none };

/// Where the steady state of an asynchronous scenario comes from: endless_stream() or what remembers it.
using StreamOf =
    std::function<std::optional<EndlessStream>(const StreamQuestion&, const Experiment&, Engine engine)>;

struct SimulateOptions {
  Engine engine = Engine::automatic;
  MemoryOptions memory;
  SteadyState steady = SteadyState::find;
  ProgramDigest digest = ProgramDigest::find;
  SharingBand band = SharingBand::skip;
  TimelineKept timeline = TimelineKept::all;  ///< `none` with WantedFigures::of_rows
  WantedFigures figures = WantedFigures::all;
  StreamOf stream_of = endless_stream;
};

/// Predicts time, memory and traffic from stored lists. Requires a lowered program. Error: the program hangs
/// under experiment.channels.
tl::expected<Result, Hang> simulate(const Experiment& experiment, const SimulateOptions& options);

/// Lowers a compute program and predicts it on one device a rank, with links of unlimited bandwidth and the
/// given latency. Error: it cannot be lowered, has more ranks than a uniform cluster has devices, or hangs.
tl::expected<Result, std::string> simulate_uniform(const Program& program, const CostTable& costs,
                                                   Ns latency_ns, SteadyState steady);

/// A scenario's run, and the steady state of its stream where the schedule is asynchronous.
struct Prediction {
  Result result;
  std::optional<EndlessStream> stream;
  std::int32_t copies = 1;  ///< of the pipeline, of which the program is one (TrainedModel)
};

/// Prepares the scenario, plans its run (plan_run.hpp) and runs it. The steady rate of an asynchronous
/// schedule is that of its endless stream, however many microbatches the run has.
tl::expected<Prediction, UserError> predict(const Scenario& scenario, const SimulateOptions& options);

/// Like predict(), from stored lists and the times of all of them, which any scenario has: engines that store
/// less are compared with it.
tl::expected<Prediction, UserError> predict_stored(const Scenario& scenario, const SimulateOptions& options);

/// Returns what these options want of a run.
Wanted wanted_by(const SimulateOptions& options);

/// Returns the plan that predict() makes before it runs. Error: as predict(), as far as it is known then.
tl::expected<RunPlan, UserError> planned(const Scenario& scenario, const SimulateOptions& options);

/// The run of predict(). A note says when it fits in memory but its stream's steady state does not.
tl::expected<Result, UserError> simulate_scenario(const Scenario& scenario, const SimulateOptions& options);

/// The rank that needs most beyond what its device has, the first of several; nothing where all fit.
std::optional<std::size_t> fullest_out_of_memory(const std::vector<RankMemory>& memories);

// Measures how certain a makespan is if messages share links.

/// Returns the largest relative change of the makespan if all compute actions take slightly more or less
/// time. `makespan_ns` is the makespan of event_simulation(). Two more runs change durations by up to a
/// millionth and a hundred-thousandth (1 ns and 10 ns of a millisecond). Equal inputs give equal results.
/// Requires a program that does not hang.
double sharing_band(const Experiment& experiment, Ns makespan_ns);

/// Returns a note that states the band. Returns nothing if the band is at most 0.01 %.
std::optional<std::string> sharing_band_note(const Experiment& experiment, Ns makespan_ns);

}  // namespace penstock

#pragma once
// Finds the steady state of an asynchronous schedule (UpdateRule::microbatch). This is the state of an
// endless stream of microbatches after its pipeline has filled. The result does not depend on the
// scenario's number of microbatches. Used by simulate.cpp.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/steady_state.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/plan_run.hpp"

namespace penstock {

/// The steady state of an asynchronous stream that never ends: its rate, and the peak memory of each rank.
struct EndlessStream {
  std::optional<double> samples_per_second;  ///< absent if the stream takes no time
  /// True if the period of the stream is exact. False if the rate is a mean over several rounds of the
  /// replicas.
  bool is_exact = true;
  std::vector<RankMemory> memories;  ///< one element for each rank, with peaks but without curves
  bool is_of_any_length = true;      ///< true if the scenario's number of microbatches has no effect
};

/// The number of microbatches in a part of a stream, and the time that this part takes.
struct StreamRate {
  Period period;  ///< has 0 microbatches if the stream is too short to have a rate
  bool is_exact = true;
};

/// The largest number of attempts to find a period. Each attempt runs a stream that is four times as long
/// as the one before.
inline constexpr int kStreamAttempts = 4;

/// The figures of a stream that the caller wants, and the values that the caller already knows.
struct StreamQuestion {
  /// Largest number of attempts; if all fail, the last one gives a mean rate.
  int attempts = kStreamAttempts;
  int known_without_period = 0;  ///< number of first attempts that are known to find no period
  bool peaks = true;             ///< true if the caller also wants `memories`
  /// Number of lowered actions of one pass of the experiment. If absent, lowered_actions() counts them.
  std::optional<std::int64_t> actions_of_pass{};
};

/// Returns the period of a stream that ran as one iteration of `program`. If the stream has no period,
/// returns the mean over whole rounds of its replicas.
StreamRate rate_of_stream(const EngineRun& run, const Program& program);
StreamRate rate_of_stream(const Timeline& run, const Program& program);

/// Returns the number of actions in the experiment's program after lowering, with a SEND and a RECV for
/// each message between ranks. The program may be lowered already.
std::int64_t lowered_actions(const Experiment& experiment);

/// Returns the steady state of the stream that begins with the experiment's microbatches. The experiment's
/// numbers of microbatches and iterations do not change the result. Returns nothing if the schedule is
/// synchronous, or if no schedule rule made the program. Also returns nothing if a stream that fills the
/// pipeline is too long to run.
std::optional<EndlessStream> endless_stream(const StreamQuestion& question, const Experiment& experiment,
                                            Engine engine);

// Predicts a Result from an Experiment or a Scenario. Most callers need only this header of the simulator.

enum class SteadyState : std::uint8_t { find, skip };

/// A switch for the digest of the program in the result. Finding the digest needs all actions of all lists.
enum class ProgramDigest : std::uint8_t { find, skip };

/// A switch for the note that says how certain the makespan is if links are shared. Finding it needs two
/// more runs (sharing_band()).
enum class SharingBand : std::uint8_t { skip, find };

/// A switch for the timeline of the result, which has the start and end of every action. The figures do not
/// depend on it.
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
/// and unlimited bandwidth. Returns an error if the program cannot be lowered, has too many ranks for a
/// uniform cluster, or hangs.
tl::expected<Result, std::string> simulate_uniform(const Program& program, const CostTable& costs,
                                                   Ns latency_ns, SteadyState steady);

/// The result of a scenario's run, with the steady state of its stream if the schedule is asynchronous.
struct Prediction {
  Result result;
  std::optional<EndlessStream> stream;
};

/// Prepares the scenario, plans its run (plan_run.hpp) and runs it. For an asynchronous schedule, the steady
/// rate is that of its endless stream, so it does not depend on the number of microbatches.
tl::expected<Prediction, UserError> predict(const Scenario& scenario, const SimulateOptions& options);

/// Predicts a scenario in the same way as predict(), but stores all lists and times, which is possible for
/// any scenario. Tests compare engines that store less with this function.
tl::expected<Prediction, UserError> predict_stored(const Scenario& scenario, const SimulateOptions& options);

/// Returns the outputs that a run must give, as `options` require.
Wanted wanted_by(const SimulateOptions& options);

/// Returns the plan that predict() makes before it runs. Returns those errors of predict() that are found
/// before the run.
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

// Estimates how much of this machine's memory a stored run will need, before it starts.
// scenarios/host/process_limits.hpp finds how much memory the machine has.

/// The largest number of compute actions of a program. prepare() refuses longer programs.
inline constexpr double kMostGenerated = 1LL << 40;

/// Lower bounds of the numbers of compute actions and transfers in a run.
struct ActionCounts {
  double compute = 0;
  double transfers = 0;
};
ActionCounts action_counts(const Scenario& scenario);
ActionCounts action_counts(const Preparation& begun);
ActionCounts action_counts(const Experiment& experiment);

/// Lower bounds of the bytes of memory that a run needs for one compute action and for one transfer.
struct ActionBytes {
  double compute = 0;
  double transfer = 0;
};
double operator*(const ActionCounts& counts, const ActionBytes& each);

/// Returns the bytes of memory that a run by `engine` needs for each action. They are 0 for the stream
/// engine, which stores only loops. `is_on_devices` is true for models on named devices, which need more
/// because their messages have bytes.
ActionBytes action_bytes(RunEngine engine, const Wanted& wanted, bool is_on_devices);

/// Returns the reason why a run that needs `bytes` does not fit in the budget. Returns nothing if it may fit.
/// The reason states `counts`.
std::optional<std::string> bytes_refusal(const ActionCounts& counts, double bytes, const Wanted& wanted,
                                         const MemoryBudget& budget);

/// Returns the reason why a run that stores lists and times does not fit in the budget. Returns nothing if
/// it may fit.
std::optional<std::string> memory_refusal(const ActionCounts& counts, const SimulateOptions& options,
                                          const MemoryBudget& budget);
/// Returns the reason why a stored run of a scenario does not fit in this machine's memory, or nothing if it
/// may fit.
std::optional<std::string> memory_refusal(const Scenario& scenario, const SimulateOptions& options);
/// Returns the reason why the lists of a scenario's program do not fit in this machine's memory, or nothing
/// if they may fit.
std::optional<std::string> lists_refusal(const Scenario& scenario);
/// Returns the reason why a check of a scenario does not fit in this machine's memory, or nothing if it may
/// fit. A check stores no times.
std::optional<std::string> check_refusal(const Scenario& scenario);

// The runs of the two engines that need no lowered lists. The stream engine walks loops, and the turns engine
// writes a tape by placement rounds. simulate.cpp calls them, and runs lowered lists itself.

/// Runs an experiment by the stream engine, which `plan` has chosen. The result has the figures of a run
/// that stores all spans, but no timeline. For a long run, it also has no digest and no rate of repeated
/// passes. `stream_rate` is the steady rate of the endless stream, if the schedule is asynchronous.
tl::expected<Result, StalledTurns> streamed_run(const Experiment& experiment, const RunPlan& plan,
                                                const SimulateOptions& options,
                                                std::optional<double> stream_rate);

/// Runs an experiment of compute lists by the turns engine. The result can have a timeline, memory over time
/// and a digest. If the caller wants only the figures of a sweep's point, spans are made only if the memory
/// is computed from them. `stream_rate` is the steady rate of the endless stream, if the schedule is
/// asynchronous.
tl::expected<Result, StalledTurns> turn_run(const Experiment& experiment, const SimulateOptions& options,
                                            std::optional<double> stream_rate);

// Predicts every schedule for the same shape and the same stages, for tables that compare schedules.

/// The figures of one schedule on equal stages. For 1/K of the model, the actions F, I and W take 1 ms each,
/// and B takes 2 ms. Transfers and updates take no time.
struct ScheduleFigures {
  std::string_view schedule;
  double idle_over_total = 0;
  double longest_span_rate = 0;
  /// Peak of activations on the fullest rank; 1 is one microbatch on 1/K of the model.
  double peak_activations = 0;
  /// Peak of weights on the fullest rank, with all weight versions; 1 is 1/K of the model.
  double weights = 0;
  /// The number of messages with activations or gradients between ranks, for each microbatch.
  double sends_per_microbatch = 0;
  Result result;  ///< the complete result, with its timeline
};

/// Predicts `schedule` for `shape`. Returns nothing if the schedule's rule refuses the shape.
std::optional<ScheduleFigures> figures_of(const ScheduleInfo& schedule, const Shape& shape);

/// Returns `shape` with only those options that the schedule supports. If it supports no chunks or no
/// slices, the result has one chunk for each rank, or whole sequences.
Shape shape_for(const ScheduleInfo& schedule, Shape shape);

}  // namespace penstock

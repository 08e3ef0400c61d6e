#pragma once
// Explains a run, which is either the run of an experiment or a stored result with the spans of its
// actions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "report/why/explanation.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/why/account.hpp"

namespace penstock {

/// The largest number of compute actions that an explanation stores.
inline constexpr std::int64_t kMostExplained = std::int64_t{1} << 22;

/// A run with its graph of causes.
struct CausedRun {
  Program program{};
  ChannelOptions channels{};
  FlatProgram flat{};
  CauseGraph graph{};
  RealDurations durations{};
  GraphCosts costs{};
  /// The times that barriers, blocking channels and limited capacity add to the ideal makespan. A line is
  /// absent if the run has no such rule.
  std::vector<BillLine> rules{};
};

/// Runs an experiment and builds the graph of causes of the run. Requires a lowered program. Returns an
/// error if the program hangs.
tl::expected<CausedRun, Hang> caused_run(const Experiment& experiment, Engine engine = Engine::automatic);

/// Builds the graph of causes between the actions of a result from its spans. In a measurement, an action
/// may start later than its latest input. Returns an error if the result has no timeline, or an incomplete
/// one.
tl::expected<CausedRun, std::string> caused_run(const Result& result);

struct ExplainOptions {
  std::int32_t samples = 32;  ///< number of points between the ideal run and the real run
  bool chains = true;         ///< false if intervals need neither a chain nor a ready action
  bool alone = true;          ///< false if bill lines need no `without_ns` and `alone_ns`
};

/// Returns the explanation of a run. The caller adds the name, the peak and the levers (changes that may
/// shorten the run).
Explanation explained(const CausedRun& run, const ExplainOptions& options = {});

/// Returns the explanation of a result for its HTML page. Returns nothing if the timeline does not explain
/// the result, or if the run is longer than a page holds (kMostViewedActions).
std::optional<Explanation> explanation_for_page(const Result& result);

/// Returns the explanation of a predicted result for its HTML page. `scenario` and `engine` are those of the
/// run. They are needed because spans do not show shared links, and do not show why a rank waited for its own
/// transfers. Returns nothing under the same conditions as the function above.
std::optional<Explanation> explanation_for_page(const Result& result, const Scenario& scenario,
                                                Engine engine);

/// Returns the bill of a scenario's run, or nothing if the scenario cannot run or has more than
/// kMostExplained compute actions.
std::optional<MeanBill> bill_of_scenario(const Scenario& scenario);

// Finds the changes with which a run gains most. They are changes of costs, of the shape and of the order.
// Each change (lever) comes with the run that it leads to. Every lever is predicted by a new run, and
// nothing is extrapolated.

/// The smallest relative gain with which a lever (a change that may shorten the run) is listed.
inline constexpr double kLeastGain = 0.001;

/// A list of levers, which are changes that may shorten the run. It counts those that were left out because
/// they gain less than kLeastGain.
struct LeverList {
  std::vector<Lever> levers;
  std::int32_t smaller = 0;
};

/// Returns the levers that change costs: faster stages, links, launches and collectives. A lever is a change
/// that may shorten the run. `experiment` is the experiment of the run, or null if only the run's spans are
/// known.
LeverList cost_levers(const CausedRun& run, const Experiment* experiment);

/// A changed scenario that the user wants to compare.
struct WhatIf {
  std::string name;  ///< for example "model.stages.forward.2=1.2ms"
  Scenario scenario;
};

/// Sets the levers of an explanation, and the peak of memory. Levers change costs, the number of
/// microbatches or chunks, or the schedule. At most `most` of them are listed, and in addition all of the
/// user's `own` ones. `scenario` and `experiment` must be those of the run. Returns an error if the
/// scenario of a `WhatIf` cannot be simulated.
tl::expected<void, UserError> add_levers(Explanation& explanation, const CausedRun& run,
                                         const Scenario& scenario, const Experiment& experiment,
                                         const std::vector<WhatIf>& own, std::size_t most);

/// Sets `explanation.memory_limit`, the time that limited memory costs. It searches twice for the best order
/// of the same stages on the same ranks. The first search allows the activations that each rank holds now,
/// and the second allows all memory of its device. Both searches together take `seconds`. If they cannot be
/// made, a note says so. `scenario` and `experiment` must be those of the run. Returns an error if the
/// scenario cannot be simulated.
tl::expected<void, UserError> add_memory_limit_cost(Explanation& explanation, const Scenario& scenario,
                                                    const Experiment& experiment, double seconds);

/// Lists the levers of `found` in the explanation, the largest gain first, and all levers of `own`. Counts
/// the levers beyond `most` and those below kLeastGain.
void list_levers(Explanation& explanation, LeverList found, std::vector<Lever> own, std::size_t most);

}  // namespace penstock

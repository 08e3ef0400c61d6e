#pragma once
// Explains a run, which is either the run of an experiment or a stored result with the spans of its
// actions.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "report/why/explanation.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/why/cause_graph.hpp"

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
  std::int32_t samples = 32;  ///< points between the ideal run and the real run
  bool chains = true;         ///< false: the intervals have neither a chain nor a ready action
  bool alone = true;          ///< false: bill lines have no `without_ns` and `alone_ns`
};

/// Returns the explanation of a run. The caller adds the name, the peak and the levers.
Explanation explained(const CausedRun& run, const ExplainOptions& options = {});

/// Returns the explanation of a result for its HTML page. Returns nothing if the timeline does not explain
/// the result, or if the run is longer than a page holds (kMostViewedActions).
std::optional<Explanation> explanation_for_page(const Result& result);

}  // namespace penstock

// Name, K and M to the figures of a row, without a list of messages on the way:
//
//   generate -> turns write the tape -> a pass: clocks, makespan -> further passes: the steady rate
//                                    -> memory: of the lists alone, or of the spans of the pass

#include "sim/runs/row_run.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/turn_tape.hpp"
#include "sim/engines/turn_timeline.hpp"
#include "sim/memory/list_peak.hpp"
#include "sim/memory/memory.hpp"
#include "sim/memory/tape_peak.hpp"
#include "sim/runs/experiment_facts.hpp"
#include "sim/runs/memory_need.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/runs/turn_run.hpp"

namespace penstock {
namespace {

std::vector<RankFigures> figures_of(const std::vector<ComputeTimes>& times) {
  std::vector<RankFigures> ranks(times.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].report.busy_ns = times[rank].busy_ns;
    ranks[rank].first_ns = times[rank].first_ns;
    ranks[rank].last_ns = times[rank].last_ns;
  }
  return ranks;
}

std::vector<RankMemory> memory_of_peaks(const Experiment& experiment, const std::vector<Bytes>& peaks) {
  std::vector<RankMemory> memories;
  memories.reserve(peaks.size());
  for (const Bytes peak : peaks) {
    RankMemory& memory = memories.emplace_back();
    memory.peak_bytes = peak;
    set_device(memory, experiment, static_cast<std::int32_t>(memories.size()) - 1);
  }
  return memories;
}

/// From the cheapest that knows them: lists alone, the tape, spans.
std::vector<RankMemory> memories_of(const Experiment& experiment, const TurnTape& turns,
                                    const TapeCosts& costs, const MemoryOptions& options) {
  std::optional<std::vector<Bytes>> peaks = list_peaks(experiment.program, experiment.costs);
  if (!peaks) peaks = tape_peaks(experiment.program, experiment.costs, turns, costs);
  if (peaks) return memory_of_peaks(experiment, *peaks);
  return memory_of(timeline_of_turns(experiment.program, turns, costs), experiment, options);
}

Prediction prediction_of(const Experiment& experiment, const TurnTape& turns,
                         const SimulateOptions& options) {
  const TapeCosts costs = tape_costs(turns.tape, experiment);
  // The first of the passes that the steady rate needs is the run itself.
  RepeatedTape passes(turns.tape, costs, experiment.program);
  std::vector<RankFigures> ranks = figures_of(passes.pass_with_compute());
  const Ns makespan_ns = passes.latest_ns();
  RunFacts facts = facts_of_experiment(experiment);
  facts.engine = to_text(Engine::critical_path);
  facts.memories = memories_of(experiment, turns, costs, options.memory);
  facts.has_digest = false;
  if (options.steady == SteadyState::find)
    facts.steady_samples_per_second = rate_of_passes(experiment, turns, passes);
  return {.result = summarize(std::move(ranks), makespan_ns, std::move(facts)),
          .stream = std::nullopt,
          .copies = copies_of(experiment)};
}

}  // namespace

std::optional<tl::expected<Prediction, SimulateError>> row_prediction(const Scenario& scenario,
                                                                      const SimulateOptions& options) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  const bool is_stream = schedule != nullptr && schedule->asynchronous;
  if (is_stream || !may_go_by_turns(scenario, options)) return std::nullopt;
  if (auto refusal = row_refusal(scenario))
    return tl::unexpected(SimulateError{*std::move(refusal), false, std::nullopt});
  const auto experiment = prepare_as_generated(scenario);
  if (!experiment) {
    return tl::unexpected(
        SimulateError{experiment.error().message, experiment.error().invalid, std::nullopt});
  }
  const auto turns = turns_of(*experiment);
  if (!turns) return std::nullopt;
  return prediction_of(*experiment, *turns, options);
}

}  // namespace penstock

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
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "report/print/units.hpp"
#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/steady_state.hpp"
#include "sim/engines/tape.hpp"
#include "sim/engines/turn_tape.hpp"
#include "sim/memory/list_peak.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

/// What a scenario says itself of whether rows need a lowered program.
bool needs_lists(const Scenario& scenario, const SimulateOptions& options) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  const ChannelOptions& channels = scenario.channels;
  return schedule == nullptr || schedule->asynchronous || scenario.program || scenario.shape.iterations > 1 ||
         options.engine == Engine::event || channels.blocking || channels.capacity > 0 ||
         channels.eager_bytes > 0;
}

/// By rank when it computes, from the ends of a pass.
std::vector<RankFigures> compute_times(const TurnTape& turns, const TapeCosts& costs,
                                       const std::vector<Ns>& ends) {
  std::vector<RankFigures> ranks(index(turns.tape.rank_count));
  std::vector<bool> started(ranks.size(), false);
  std::visit(
      [&](const auto& code) {
        std::size_t next = 0;
        for (std::size_t i = 0; i < code.size(); ++i) {
          const Origin& origin = turns.tape.origins[i];
          if (origin.position >= 0) {
            const Ns duration = costs.durations[code[i].duration];
            RankFigures& rank = ranks[code[i].a];
            if (!started[code[i].a]) rank.first_ns = ends[next] - duration;
            started[code[i].a] = true;
            rank.report.busy_ns += duration;
            rank.last_ns = ends[next++];
          }
          if (origin.message >= 0) ++next;
        }
      },
      turns.tape.code);
  return ranks;
}

std::vector<RankMemory> memory_of_lists(const Experiment& experiment) {
  std::vector<RankMemory> memories;
  for (const Bytes peak : list_peaks(experiment)) {
    RankMemory& memory = memories.emplace_back();
    memory.peak_bytes = peak;
    if (experiment.counts_activations) memory.unit = MemoryUnit::activations;
    const auto rank = std::ssize(memories) - 1;
    if (rank < experiment.cluster.device_count())
      memory.capacity = experiment.cluster.devices()[static_cast<std::size_t>(rank)].memory_bytes;
  }
  return memories;
}

std::vector<RankMemory> memory_of_spans(const Experiment& experiment, const TurnTape& turns,
                                        const TapeCosts& costs, const MemoryOptions& options) {
  const MemoryOfRanks memory(experiment, options);
  std::vector<RankMemory> memories;
  std::int32_t rank = 0;
  for (const std::vector<Span>& spans :
       spans_of_turns(experiment.program, turns, instruction_times(turns.tape, costs)))
    memories.push_back(memory.of(rank++, spans));
  return memories;
}

/// Actions of the lowered program: each message is a SEND and a RECV.
std::size_t lowered_actions(const Program& program, const TurnTape& turns) {
  std::size_t actions = 2 * turns.units.size();
  for (const std::vector<Action>& list : program.ranks) actions += list.size();
  return actions;
}

std::optional<double> steady_rate(const Experiment& experiment, const TurnTape& turns, RepeatedTape& passes) {
  const auto period =
      period_of_passes(experiment.program, lowered_actions(experiment.program, turns), passes);
  if (!period || period->period_ns == 0) return std::nullopt;
  return samples_per_second(*period, experiment.samples_per_microbatch);
}

Prediction prediction_of(const Experiment& experiment, const TurnTape& turns,
                         const SimulateOptions& options) {
  const TapeCosts costs = tape_costs(turns.tape, experiment);
  RepeatedTape passes(turns.tape, costs, experiment.program);
  const std::vector<Ns> ends = passes.pass_with_ends();
  const Ns makespan_ns = passes.latest_ns();
  RunFacts facts{.program = experiment.program,
                 .costs = experiment.costs,
                 .samples_per_microbatch = experiment.samples_per_microbatch,
                 .scenario = experiment.name,
                 .engine = std::string(to_text(Engine::critical_path)),
                 .channels = experiment.channels,
                 .price_per_device_hour = experiment.price_per_device_hour,
                 .memories = peaks_follow_from_lists(experiment)
                                 ? memory_of_lists(experiment)
                                 : memory_of_spans(experiment, turns, costs, options.memory),
                 .notes = experiment.notes,
                 .has_digest = false};
  std::vector<RankFigures> ranks = compute_times(turns, costs, ends);
  if (options.steady == SteadyState::find)
    facts.steady_samples_per_second = steady_rate(experiment, turns, passes);
  Result result = with_model_rates(summarize(std::move(ranks), makespan_ns, std::move(facts)), experiment);
  const std::int32_t copies = experiment.trained ? experiment.trained->copies : 1;
  return {.result = std::move(result), .stream = std::nullopt, .copies = copies};
}

}  // namespace

std::optional<tl::expected<Prediction, SimulateError>> row_prediction(const Scenario& scenario,
                                                                      const SimulateOptions& options) {
  if (needs_lists(scenario, options)) return std::nullopt;
  const auto experiment = prepare_as_generated(scenario);
  if (!experiment) {
    return tl::unexpected(
        SimulateError{experiment.error().message, experiment.error().invalid, std::nullopt});
  }
  const bool has_messages = experiment->program.rank_count() > 1 && is_lowered(experiment->program);
  if (has_messages || !experiment->costs.launch.is_free() || stages_share_links(*experiment))
    return std::nullopt;
  const auto turns =
      compile_turns(experiment->program, experiment->channels, microbatch_groups(experiment->costs));
  if (!turns || turns->has_collectives) return std::nullopt;
  return prediction_of(*experiment, *turns, options);
}

}  // namespace penstock

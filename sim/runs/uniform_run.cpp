// Runs every schedule with a model of the same size. A rank's share of the model takes the same time for each
// schedule. If the share is cut into chunks, or a sequence into slices, each part takes an equal part of that
// time.

#include "sim/runs/uniform_run.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

namespace {

/// Returns costs in which F, I and W each take 1 ms for 1/K of the model. K is the number of ranks. The
/// costs of chunks and slices are parts of 1 ms.
CostTable equal_stages(const Program& program) {
  constexpr Ns kUnit = 1'000'000;
  const ExtraStages extra = extra_stages_of(program);
  CostTable costs = unit_costs(program);
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    const StageShare of_model = stage_share(extra, program.stage_count(), stage);
    StageCost& cost = costs.stages[static_cast<std::size_t>(stage)];
    const Ns part = of_model.of(kUnit * program.rank_count()) / program.slices;
    cost.forward_ns = cost.backward_input_ns = cost.backward_weight_ns = cost.recompute_ns = part;
    cost.backward_ns = 2 * part;
    // If all stages have one size, activations are counted. Otherwise, the activations of a stage are
    // weighted by its share of the model.
    if (extra != ExtraStages::none) cost.kept = of_model.of(kActivationParts * program.rank_count());
  }
  return costs;
}

/// Returns the weights that the fullest rank stores, in units of 1/K of the model. They are those of the
/// rank's stages times its number of weight versions.
double weights_of(const Program& program, const Result& result) {
  const ExtraStages extra = extra_stages_of(program);
  double most = 0;
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    double held = 0;
    for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
      const StageShare part = stage_share(extra, program.stage_count(), stage);
      if (program.placement.replica_on(stage, rank) < 0) continue;
      held +=
          static_cast<double>(part.numerator * program.rank_count()) / static_cast<double>(part.denominator);
    }
    most = std::max(most, held * result.ranks[static_cast<std::size_t>(rank)].weight_versions);
  }
  return most;
}

/// Returns the activations that the fullest rank stores, in activations of 1/K of the model.
double peak_activations_of(const Program& program, const Result& result) {
  if (extra_stages_of(program) != ExtraStages::none) {
    Bytes most = 0;
    for (const RankReport& rank : result.ranks)
      most = std::max(most, rank.memory.peaks[static_cast<std::size_t>(MemoryCategory::activations)]);
    return static_cast<double>(most) / static_cast<double>(kActivationParts);
  }
  std::int64_t peak = 0;
  for (const RankReport& rank : result.ranks) peak = std::max(peak, rank.peak_live_activations);
  return static_cast<double>(peak * program.rank_count()) / (program.stage_count() * program.slices);
}

/// Generates the program. If the schedule searches its order by costs, the search gets the costs of equal
/// stages.
Generated program_of(const ScheduleInfo& schedule, Shape shape) {
  auto program = generate(schedule.name, shape);
  if (!program || !schedule.weighs_costs || shape.costs) return program;
  shape.costs = equal_stages(*program);
  return generate(schedule.name, shape);
}

tl::expected<Result, std::string> result_of(const Program& program) {
  return simulate_uniform(program, equal_stages(program), 0, SteadyState::skip);
}

}  // namespace

Shape shape_for(const ScheduleInfo& schedule, Shape shape) {
  if (!takes_chunks(schedule)) shape.virtual_stages = 1;
  if (!takes_option(schedule, "slices")) shape.slices = 1;
  return shape;
}

std::optional<ScheduleFigures> figures_of(const ScheduleInfo& schedule, const Shape& shape) {
  const auto program = program_of(schedule, shape_for(schedule, shape));
  if (!program) return std::nullopt;
  auto result = result_of(*program);
  if (!result) return std::nullopt;

  ScheduleFigures figures{.schedule = schedule.name,
                          .idle_over_total = result->bubble.idle_over_total,
                          .longest_span_rate = result->bubble.longest_span_rate,
                          .weights = weights_of(*program, *result),
                          .result = *std::move(result)};
  if (program->update == UpdateRule::double_buffered) {
    Program twice = *program;  // the second version exists only from the second minibatch on
    twice.iterations = 2;
    if (const auto longer = result_of(twice)) figures.weights = weights_of(twice, *longer);
  }
  figures.peak_activations = peak_activations_of(*program, figures.result);
  std::int64_t sends = 0;
  for (const Span& span : figures.result.timeline.spans) sends += is_send(span.action.kind) ? 1 : 0;
  figures.sends_per_microbatch = static_cast<double>(sends) / program->microbatches;
  return figures;
}

}  // namespace penstock

// partition planned -> batch -> generate -> model's edges -> validate -> lower -> price -> cluster.

#include "scenarios/experiment.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/batch.hpp"
#include "scenarios/cluster_spec.hpp"
#include "scenarios/generated_program.hpp"
#include "scenarios/model.hpp"
#include "scenarios/partition.hpp"
#include "scenarios/planned_scenario.hpp"
#include "scenarios/scenario.hpp"
#include "scenarios/stage_buckets.hpp"
#include "scenarios/stage_costs.hpp"
#include "schedules/action.hpp"
#include "schedules/lower.hpp"
#include "schedules/program.hpp"
#include "schedules/validate.hpp"

namespace penstock {
namespace {

/// The message with the scenario's file in front, unless it starts with a place already.
PrepareError bad_input(const Scenario& scenario, std::string_view message) {
  const bool has_place =
      scenario.file.empty() || message.starts_with(scenario.file) || message.starts_with("--set ");
  return {.message = has_place ? std::string(message) : fmt::format("{}: {}", scenario.file, message),
          .invalid = false};
}

PrepareError invalid_program(const Scenario& scenario, std::string_view message) {
  PrepareError error = bad_input(scenario, message);
  error.invalid = true;
  return error;
}

/// The scenario's batch; a program file states its number of microbatches itself.
tl::expected<ResolvedBatch, std::string> batch_in_force(const Scenario& scenario) {
  Batch batch = scenario.batch;
  if (scenario.program) {
    if (batch.microbatches && *batch.microbatches != scenario.program->microbatches) {
      return tl::unexpected(
          fmt::format("schedule.microbatches: the program has {}, got {}; leave the key out",
                      scenario.program->microbatches, *batch.microbatches));
    }
    batch.microbatches = scenario.program->microbatches;
  }
  return resolve_batch(
      batch, meaning_of_microbatch(scenario.program ? scenario.program->schedule : scenario.schedule));
}

tl::expected<Program, std::string> compute_program(const Scenario& scenario, const ResolvedBatch& batch) {
  if (scenario.program) return *scenario.program;
  return generated_program(scenario, batch);
}

/// Puts the edges that the model states into the program.
tl::expected<Program, std::string> with_model_edges(Program program, const Model& model) {
  const auto* figures = std::get_if<StageFigures>(&model);
  if (figures == nullptr || figures->edges.empty()) return program;
  std::vector<StageEdge> edges = figures->edges;
  std::ranges::sort(edges);
  if (!program.edges.empty() && program.edges != edges) {
    return tl::unexpected(std::string(
        "model.stages.edges: the schedule's program has stage edges of its own; leave the key out"));
  }
  for (const StageEdge& edge : edges) {
    if (edge.to >= program.stage_count()) {
      return tl::unexpected(
          fmt::format("model.stages.edges: the edge [{}, {}] names a stage beyond the last, {}", edge.from,
                      edge.to, program.stage_count() - 1));
    }
  }
  program.edges = std::move(edges);
  return program;
}

tl::expected<Program, PrepareError> lowered_program(const Scenario& scenario, const ResolvedBatch& batch) {
  auto program = compute_program(scenario, batch);
  if (program) program = with_model_edges(*std::move(program), scenario.model);
  if (!program) return tl::unexpected(bad_input(scenario, program.error()));
  if (auto valid = validate(*program); !valid)
    return tl::unexpected(invalid_program(scenario, valid.error()));
  auto lowered = lower(*program);
  if (!lowered) return tl::unexpected(invalid_program(scenario, lowered.error()));
  return *std::move(lowered);
}

bool has_overhead(const Model& model) {
  if (const auto* graph = std::get_if<LayerGraph>(&model)) return graph->overhead_ns > 0;
  const auto* figures = std::get_if<StageFigures>(&model);
  return figures != nullptr && std::ranges::any_of(figures->overhead.values, [](Ns ns) { return ns > 0; });
}

/// Says nothing of `wanted` itself, so that a sweep can say it once for all sizes.
std::vector<std::string> notes_of(const Scenario& scenario, std::int64_t wanted) {
  std::vector<std::string> notes = scenario.notes;
  const std::int64_t own = scenario.batch.own_micro_batch_size;
  if (wanted == own) return notes;
  const std::string samples = own == 1 ? "one sample" : fmt::format("{} samples", own);
  notes.push_back(
      std::holds_alternative<UnitCosts>(scenario.model)
          ? fmt::format("no model is given: F, I and W take 1 ms and B 2 ms for {}, and times and bytes are "
                        "scaled linearly to the microbatch's size",
                        samples)
          : fmt::format("the model's times and bytes hold for {} a microbatch and are scaled linearly to the "
                        "microbatch's size, {}",
                        samples, has_overhead(scenario.model) ? "overhead apart" : "with overhead 0"));
  return notes;
}

/// Requires that cost_table() took the scenario.
std::vector<std::vector<std::string>> layers_of_stages(const Scenario& scenario, std::int32_t stages) {
  const auto* graph = std::get_if<LayerGraph>(&scenario.model);
  if (graph == nullptr) return {};
  const std::vector<std::int32_t>& buckets = scenario.shape.buckets;
  auto ends = (buckets.empty() ? cut_layers(*graph, scenario.partition, stages)
                               : cut_buckets(*graph, scenario.partition, buckets))
                  .value();
  ends.push_back(static_cast<std::int32_t>(graph->layers.size()));
  std::vector<std::vector<std::string>> names(ends.size());
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < ends.size(); ++stage) {
    for (; layer < static_cast<std::size_t>(ends[stage]); ++layer)
      names[stage].push_back(graph->layers[layer].name);
  }
  return names;
}

std::optional<StagedNetwork> staged_network(const Scenario& scenario, std::int32_t stages) {
  if (!scenario.network) return std::nullopt;
  return StagedNetwork{.spec = *scenario.network,
                       .layers = layers_of_stages(scenario, stages),
                       .optimizer = scenario.optimizer};
}

}  // namespace

tl::expected<Experiment, PrepareError> prepare(const Scenario& stated) {
  auto planned = with_planned_partition(stated);
  if (!planned) return tl::unexpected(bad_input(stated, planned.error()));
  auto buckets = stage_buckets(*planned);
  if (!buckets) return tl::unexpected(bad_input(stated, buckets.error()));
  planned->shape.buckets = *std::move(buckets);
  const Scenario& scenario = *planned;
  const auto batch = batch_in_force(scenario);
  if (!batch) return tl::unexpected(bad_input(scenario, batch.error()));
  auto program = lowered_program(scenario, *batch);
  if (!program) return tl::unexpected(program.error());
  auto costs = cost_table(scenario, *program, batch->micro_batch_size);
  if (!costs) return tl::unexpected(bad_input(scenario, costs.error()));
  auto cluster = build_cluster(scenario.cluster, program->rank_count());
  if (!cluster) return tl::unexpected(bad_input(scenario, cluster.error()));
  auto network = staged_network(scenario, program->stage_count());
  const std::string name = scenario.file.empty() ? program->schedule : scenario.file;
  return Experiment{.name = name,
                    .program = *std::move(program),
                    .costs = *std::move(costs),
                    .cluster = *std::move(cluster),
                    .channels = scenario.channels,
                    .samples_per_microbatch = static_cast<double>(batch->micro_batch_size),
                    .notes = notes_of(scenario, batch->micro_batch_size),
                    .price_per_device_hour = scenario.cluster.price_per_device_hour,
                    .network = std::move(network)};
}

}  // namespace penstock

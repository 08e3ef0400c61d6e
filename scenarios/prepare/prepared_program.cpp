// Makes the compute program of a schedule. The placed program, in which each stage has its ranks,
// determines the number of stages. The model is cut into that number of stages, and the costs of each
// stage are computed. Some schedules use these costs to search for the best order of actions
// (weighs_costs):
//
//   schedule and batch -> placed program -> cut of the model
//                      -> (weighs_costs: prices of whole stages, times of messages) -> compute program

#include "scenarios/prepare/prepared_program.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/cut.hpp"
#include "scenarios/prepare/program_prices.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/return_if_error.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/asked_schedule.hpp"
#include "schedules/rules/generators.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// Returns, for each stage, the time that its activation takes to reach the next stage. Returns an error if
/// a time is too long for the search.
tl::expected<std::vector<Ns>, std::string> transfer_times(const Program& placed, const ProgramPrices& prices);

/// Returns the program `placed` with its stages divided into `buckets`, and the notes of the schedule. If
/// the order of the schedule depends on costs, it is the best order that was found. Requires that `placed`
/// equals placed_stages(schedule), and that `whole` cuts the model into its stages. Returns the errors of
/// generate(), program_prices() and transfer_times().
GeneratedWithNotes compute_program(const StatedSchedule& schedule, Program placed, const StageCut& whole,
                                   const std::vector<std::int32_t>& buckets, const PriceTerms& terms);

// --- placed program --------------------------------------------------------------------------------------
//
// The ranks of the stages depend neither on costs nor on buckets. So a program that is generated without
// costs and buckets has the right number of stages on the right ranks.

namespace {

/// Returns the schedule's shape without gradient buckets. If the order of actions depends on costs, the
/// shape also has no memory limits, because no bytes are known yet. compute_program() applies buckets and
/// limits later.
Shape shape_without_costs(const StatedSchedule& schedule) {
  Shape shape = schedule.shape;
  shape.buckets.clear();
  if (schedule.weighs_costs) shape.memory_limit.clear();
  return shape;
}

/// Returns the error that generate() would return for this shape. Returns no error if generate() accepts
/// it.
tl::expected<void, std::string> check_stored_shape(const std::string& name, Shape shape) {
  if (auto takes = check_shape(name, shape); !takes) return takes;
  shape.virtual_stages = chunks_of(*find_schedule(name), shape);
  return check_stored_size(shape);
}

}  // namespace

tl::expected<Program, std::string> placed_program(const StatedSchedule& schedule) {
  if (schedule.program != nullptr) {
    if (schedule.shape.buckets.empty()) return *schedule.program;
    return tl::unexpected(std::string("schedule.buckets: a program has its own stages; leave it out"));
  }
  return generate(schedule.name, shape_without_costs(schedule));
}

tl::expected<Program, std::string> placed_stages(const StatedSchedule& schedule) {
  if (!schedule.weighs_costs) return placed_program(schedule);
  Shape shape = shape_without_costs(schedule);
  PENSTOCK_RETURN_IF_ERROR(check_stored_shape(schedule.name, shape));
  // The number of microbatches does not change the ranks of the stages, so one microbatch for each copy is
  // enough.
  shape.microbatches = shape.data_parallel;
  return generate(schedule.name, shape).map([&](Program program) {
    program.microbatches = schedule.shape.microbatches;
    for (std::vector<Action>& list : program.ranks) list.clear();
    return program;
  });
}

// --- schedule in force -----------------------------------------------------------------------------------

namespace {

/// Returns the schedule of the scenario. The caller sets the number of microbatches.
StatedSchedule stated_schedule(const Scenario& scenario) {
  const Program* program = scenario.program ? &*scenario.program : nullptr;
  const ScheduleInfo* generated = program == nullptr ? find_schedule(scenario.schedule) : nullptr;
  return {.program = program,
          .name = scenario.schedule,
          .shape = scenario.shape,
          .weighs_costs = generated != nullptr && generated->weighs_costs};
}

}  // namespace

tl::expected<ScheduleInForce, std::string> schedule_in_force(const Scenario& scenario,
                                                             std::optional<std::int32_t> copies) {
  StatedSchedule schedule = stated_schedule(scenario);
  const Program* program = schedule.program;
  const MicrobatchMeaning meaning =
      meaning_of_microbatch(program == nullptr ? schedule.name : program->schedule);
  auto batch = copies ? batch_of_copy(scenario.batch, *copies) : scenario.batch;
  if (!batch) return tl::unexpected(batch.error());
  if (program != nullptr) {
    // A scenario or a flag may repeat the program file's number of microbatches, so only a different number
    // is an error.
    if (batch->microbatches && *batch->microbatches != program->microbatches) {
      return tl::unexpected(
          fmt::format("schedule.microbatches: the program has {}, got {}; leave the key out",
                      program->microbatches, *batch->microbatches));
    }
    batch->microbatches = program->microbatches;
  }
  const auto resolved = resolve_batch(*batch, meaning);
  // If both the name and the batch are missing, the error names both, so that the user can fix both at once.
  const bool is_named = program != nullptr || !schedule.name.empty();
  const std::string no_name = "schedule.name is missing: expected the name of a schedule such as gpipe";
  if (!resolved && !is_named) return tl::unexpected(fmt::format("{}; {}", no_name, resolved.error()));
  if (!resolved) return tl::unexpected(resolved.error());
  if (!is_named) return tl::unexpected(no_name);
  schedule.shape.microbatches = resolved->microbatches;
  return ScheduleInForce{.stated = *batch, .batch = *resolved, .schedule = std::move(schedule)};
}

namespace {

PriceTerms price_terms(const Scenario& scenario, const ResolvedBatch& batch) {
  return {
      .model = scenario.model,
      .pricing = {.samples = {.own = scenario.batch.own_micro_batch_size, .wanted = batch.micro_batch_size},
                  .beside = bytes_per_weight_byte(scenario.optimizer, scenario.precision),
                  .pipeline_size = scenario.program ? 0 : scenario.shape.stages},
      .cluster = scenario.cluster,
      .launch = scenario.launch,
      .host = scenario.host,
      .clones_versions = scenario.clones_versions};
}

/// Returns a note that lists the layers of each stage and the slowness of its device. It is used if stages
/// run on unlike devices.
std::string unlike_stages_note(const LayerGraph& graph, const StageCut& cut) {
  std::vector<std::string> stages;
  std::int32_t begin = 0;
  for (const std::int32_t end : cut.ends) {
    const std::string& first = graph.layers[static_cast<std::size_t>(begin)].name;
    const std::string& last = graph.layers[static_cast<std::size_t>(end - 1)].name;
    const double slowness = cut.slowness[stages.size()];
    stages.push_back(fmt::format("{}{} x {:.4g}", first, end - begin > 1 ? ".." + last : "", slowness));
    begin = end;
  }
  return fmt::format(
      "devices are unlike; the layers of each stage, and their times over those of the fastest "
      "device: {}",
      fmt::join(stages, ", "));
}

}  // namespace

tl::expected<ResolvedScenario, std::string> resolve(const Scenario& scenario, const ScheduleInForce& in_force,
                                                    Program placed) {
  const PriceTerms terms = price_terms(scenario, in_force.batch);
  PENSTOCK_ASSIGN_OR_RETURN(const StageCut whole,
                            cut_model(scenario.model, scenario.partition, placed.stage_count(),
                                      slowness_of_stages(scenario.model, placed)));
  // The cut without buckets is also needed below, because searches for an order use the costs of stages that
  // are not divided.
  PENSTOCK_ASSIGN_OR_RETURN(StageCut cut, cut_into_buckets(scenario.model, whole, scenario.shape.buckets));
  PENSTOCK_ASSIGN_OR_RETURN(ProgramWithNotes computed,
                            compute_program(in_force.schedule, std::move(placed), whole, cut.buckets, terms));
  if (!whole.slowness.empty())
    computed.notes.push_back(unlike_stages_note(std::get<LayerGraph>(scenario.model), whole));
  return ResolvedScenario{.terms = terms,
                          .cut = std::move(cut),
                          .program = std::move(computed.program),
                          .notes = std::move(computed.notes)};
}

tl::expected<CostTable, std::string> costs_of_cut(const Scenario& scenario, const Program& program) {
  PENSTOCK_ASSIGN_OR_RETURN(const ScheduleInForce in_force, schedule_in_force(scenario));
  // The caller already has a program, and only the cut changes. So no schedule is generated here, and the
  // number of stages is the one that the scenario states.
  PENSTOCK_ASSIGN_OR_RETURN(const StageCut whole,
                            cut_model(scenario.model, scenario.partition, scenario.shape.stages, {}));
  PENSTOCK_ASSIGN_OR_RETURN(const StageCut cut,
                            cut_into_buckets(scenario.model, whole, scenario.shape.buckets));
  return program_costs(price_terms(scenario, in_force.batch), cut, program);
}

// --- times of messages -----------------------------------------------------------------------------------
//
// A search stores a time and a rank together in one 64-bit number (schedules/search/timed_lists.hpp). The
// times must therefore be below a limit:
//
//   longest time * (4 * steps of a rank) * ranks < 2^62

tl::expected<std::vector<Ns>, std::string> transfer_times(const Program& placed,
                                                          const ProgramPrices& prices) {
  constexpr double kMost = 4.6e18;  // 2^62
  Ns longest = 0;
  for (const StageCost& cost : prices.costs.stages)
    longest = std::max({longest, cost.forward_ns, cost.backward_input_ns, cost.backward_weight_ns});
  const EdgeNumbers edges(placed);
  std::vector<Ns> times;
  for (std::int32_t stage = 0; stage + 1 < placed.stage_count(); ++stage) {
    const std::int32_t from = placed.placement.rank_of(stage, 0);
    const std::int32_t to = placed.placement.rank_of(stage + 1, 0);
    const Route& route = prices.cluster.route(from, to);
    const Action send{.kind = ActionKind::send_forward, .stage = stage, .microbatch = 0, .peer = stage + 1};
    times.push_back(serialization_ns(transfer_bytes(prices.costs, edges, send), route.bytes_per_second) +
                    route.latency_ns);
    longest = std::max(longest, times.back());
  }
  const double steps = 4.0 * (placed.unit_count() + static_cast<double>(prices.costs.stages.size()));
  // The number of ranks is rounded up to a power of two, because a rank takes a whole number of bits.
  const auto ranks = static_cast<double>(std::bit_ceil(static_cast<std::uint32_t>(placed.rank_count())));
  if (static_cast<double>(longest) * steps * ranks < kMost) return times;
  return tl::unexpected(fmt::format(
      "the schedule searches its order by the model's times, of which the longest, {:.3g} s, is too long for "
      "{} ranks and {} microbatches; take shorter times, or a schedule of one order",
      static_cast<double>(longest) * 1e-9, placed.rank_count(), placed.unit_count()));
}

// --- compute program -------------------------------------------------------------------------------------

GeneratedWithNotes compute_program(const StatedSchedule& schedule, Program placed, const StageCut& whole,
                                   const std::vector<std::int32_t>& buckets, const PriceTerms& terms) {
  if (!schedule.weighs_costs && buckets.empty())
    return ProgramWithNotes{.program = std::move(placed), .notes = {}};
  Shape shape = schedule.shape;
  shape.buckets = buckets;
  // Buckets do not change the order, so the search uses the costs of stages that are not divided.
  if (schedule.weighs_costs) {
    PENSTOCK_ASSIGN_OR_RETURN(ProgramPrices prices, program_prices(terms, whole, placed));
    PENSTOCK_ASSIGN_OR_RETURN(shape.transfer_ns, transfer_times(placed, prices));
    shape.costs = std::move(prices.costs);
    if (std::holds_alternative<UnitCosts>(terms.model)) {
      for (Bytes& limit : shape.memory_limit) limit = amount_of_activations(limit);
    }
  }
  return generate_with_notes(schedule.name, shape);
}

}  // namespace penstock

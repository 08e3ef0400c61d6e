// Computes one UnscaledStage for each stage, for all forms of a model. Its figures hold for the model's
// own microbatch size. The gradient buckets of a stage divide its figures among them. Then one rule scales
// all figures:
//
//   duration = overhead + figure * wanted / own        bytes = figure * wanted / own
//
// B is scaled as a whole and then divided into I and W, so that B = I + W stays exact.
#include "scenarios/prepare/program_prices.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/cut.hpp"
#include "scenarios/prepare/model_stages.hpp"
#include "scenarios/prepare/prepared_program.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/return_if_error.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "topology/cluster.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

// --- buckets --------------------------------------------------------------------------------------------

/// Returns part i of n nearly equal parts of `figure`. All parts add up to `figure`.
std::int64_t part(std::int64_t figure, std::int32_t i, std::int32_t n) {
  const Wide whole = figure;
  return static_cast<std::int64_t>(whole * (i + 1) / n - whole * i / n);
}

std::vector<UnscaledStage> in_equal_buckets(std::vector<UnscaledStage> stages,
                                            const std::vector<std::int32_t>& buckets) {
  if (buckets.empty()) return stages;
  std::vector<UnscaledStage> result;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (std::int32_t i = 0; i < buckets[stage]; ++i) {
      result.push_back(stages[stage]);
      result.back().cost = bucket_of(stages[stage].cost, i, buckets[stage]);
    }
  }
  return result;
}

/// Removes the overhead from all buckets except the first one of each stage. A stage has its overhead only
/// once.
void clear_overhead_of_later_buckets(std::vector<UnscaledStage>& stages,
                                     const std::vector<std::int32_t>& buckets) {
  std::size_t first = 0;
  for (const std::int32_t count : buckets) {
    for (std::size_t later = first + 1; later < first + static_cast<std::size_t>(count); ++later)
      stages[later].overhead_ns = 0;
    first += static_cast<std::size_t>(count);
  }
}

// --- scaling --------------------------------------------------------------------------------------------

StageCost scaled(const UnscaledStage& stage, Scaler& scale) {
  StageCost cost = stage.cost;
  const Ns overhead = stage.overhead_ns;
  // W is the rest of B after I, so that rounding cannot change their sum.
  const Ns backward = scale(cost.backward_ns);
  const Ns input = std::min(scale(cost.backward_input_ns), backward);
  cost.forward_ns = scale.with_overhead(scale(cost.forward_ns), overhead);
  cost.backward_ns = scale.with_overhead(backward, overhead);
  cost.backward_input_ns = scale.with_overhead(input, overhead);
  cost.backward_weight_ns = scale.with_overhead(backward - input, overhead);
  cost.recompute_ns = scale.with_overhead(scale(cost.recompute_ns), overhead);
  if (cost.overlapped_pair_ns >= 0) {  // the pair consists of two actions, and each of them has the overhead
    const Ns first = scale.with_overhead(scale(cost.overlapped_pair_ns), overhead);
    cost.overlapped_pair_ns = scale.with_overhead(first, overhead);
  }
  cost.pair_hidden_ns = scale(cost.pair_hidden_ns);
  cost.kept = scale(cost.kept);
  cost.released_by_input = scale(cost.released_by_input);
  cost.recomputed = scale(cost.recomputed);
  cost.input = scale(cost.input);
  cost.transient = scale(cost.transient);
  // Without this limit, rounding could make `recomputed_at_once` larger than `transient`.
  cost.recomputed_at_once = std::min(scale(cost.recomputed_at_once), cost.transient);
  return cost;
}

tl::expected<CostTable, std::string> scaled_table(const std::vector<UnscaledStage>& stages,
                                                  const Program& program, Scaling scaling) {
  Scaler scale(scaling);
  CostTable costs;
  for (const UnscaledStage& stage : stages) costs.stages.push_back(scaled(stage, scale));
  for (const StageEdge& edge : stage_edges(program)) {
    const UnscaledStage& from = stages[static_cast<std::size_t>(edge.from)];
    costs.edges.push_back({.activation = scale(from.activation), .gradient = scale(from.gradient)});
  }
  if (scale.overflowed()) return tl::unexpected(scale.overflow());
  leave_out_backwards(costs, program);
  return costs;
}

// --- the forms of a model -------------------------------------------------------------------------------

/// Returns the pipeline length K for a program file: the number of ranks through which a microbatch passes.
/// If a microbatch stays on a single rank (data parallelism), each rank holds the whole model. K is then
/// the number of all ranks.
std::int64_t pipeline_size_of(const Program& program) {
  std::set<std::int32_t> passed;
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage)
    passed.insert(program.placement.rank_of(stage, 0));
  if (passed.size() > 1) return std::ssize(passed);
  return std::min(program.rank_count(), program.stage_count());
}

/// Returns the costs of one share of a model. The whole model costs as much as `all` stages with unit costs.
/// I and W take as long as F, so only F is rounded.
StageCost part_of_units(std::int64_t all, const StageShare& part) {
  StageCost cost = kUnitStage;
  cost.forward_ns = cost.backward_input_ns = cost.backward_weight_ns = cost.recompute_ns =
      part.of(kUnitStage.forward_ns * all);
  cost.backward_ns = 2 * cost.forward_ns;
  cost.kept = part.of(kActivationParts * all);
  return cost;
}

/// A visitor that returns the figures of the model's stages. For a model that states layers, it returns one
/// entry for each bucket, because each bucket has its own layers.
struct StagesOf {
  const StageCut& cut;
  const BytesPerWeightByte& beside;
  std::int64_t ranks = 1;                 ///< number of ranks of the program; used only for unit costs
  ExtraStages extra = ExtraStages::none;  ///< extra stages of the program; used only for unit costs

  UnscaledStages operator()(const UnitCosts& units) const {
    // An output layer or an encoder counts as much as one stage of layers.
    const std::int64_t parts = divides_output(extra) ? layer_stages(extra, cut.stages) + 1 : cut.stages;
    const std::int64_t all = units.unit == CostUnit::stage ? parts : ranks;
    std::vector<UnscaledStage> stages;
    stages.reserve(static_cast<std::size_t>(cut.stages));
    for (std::int32_t stage = 0; stage < cut.stages; ++stage)
      stages.push_back({.cost = part_of_units(all, stage_share(extra, cut.stages, stage))});
    return stages;
  }
  UnscaledStages operator()(const StageFigures& figures) const {
    return unscaled_stages(figures, beside, cut.stages);
  }
  UnscaledStages operator()(const LayerGraph& graph) const {
    return unscaled_stages(graph, beside, cut.ends, cut.slowness);
  }
  UnscaledStages operator()(const DeviceModel& /*model*/) const {
    throw std::logic_error("a model on named devices becomes stages before they are priced");
  }
  UnscaledStages operator()(const FittedModel& /*model*/) const {
    throw std::logic_error("a model with fitted costs becomes stages before they are priced");
  }
};

/// Returns the scaling of figures for one slice of a microbatch. With unit costs, a slice takes as long as
/// a microbatch, because each unit that the schedule processes costs one.
Scaling of_a_slice(const Model& model, const Program& program, Scaling samples) {
  // A slice has 1/q of a microbatch's costs. This is the same as if the figures held for q times as many
  // samples.
  if (!std::holds_alternative<UnitCosts>(model)) samples.own *= program.slices;
  return samples;
}

}  // namespace

StageCost bucket_of(const StageCost& stage, std::int32_t i, std::int32_t n) {
  StageCost bucket = stage;  // `transient` is not divided, because one bucket runs at a time
  bucket.forward_ns = part(stage.forward_ns, i, n);
  bucket.backward_ns = part(stage.backward_ns, i, n);
  bucket.backward_input_ns = part(stage.backward_input_ns, i, n);
  // W is computed from B and I, because separate rounding could break their sum.
  bucket.backward_weight_ns = bucket.backward_ns - bucket.backward_input_ns;
  bucket.recompute_ns = part(stage.recompute_ns, i, n);
  bucket.pair_hidden_ns = part(stage.pair_hidden_ns, i, n);
  bucket.step_ns = part(stage.step_ns, i, n);
  bucket.kept = part(stage.kept, i, n);
  bucket.released_by_input = std::min(part(stage.released_by_input, i, n), bucket.kept);
  bucket.recomputed = part(stage.recomputed, i, n);
  // Only the first bucket of a stage reads the stage's input, so the others store none.
  bucket.input = i == 0 ? stage.input : 0;
  bucket.weights = part(stage.weights, i, n);
  bucket.gradients = part(stage.gradients, i, n);
  bucket.optimizer_state = part(stage.optimizer_state, i, n);
  return bucket;
}

tl::expected<CostTable, std::string> stage_costs(const Model& model, const StageCut& cut,
                                                 const Pricing& pricing, const Program& program) {
  const Scaling samples = of_a_slice(model, program, pricing.samples);
  StagesOf stages_of{.cut = cut,
                     .beside = pricing.beside,
                     .ranks = pricing.pipeline_size,
                     .extra = extra_stages_of(program)};
  if (stages_of.ranks == 0 && std::holds_alternative<UnitCosts>(model))
    stages_of.ranks = pipeline_size_of(program);
  auto figures = std::visit(stages_of, model);
  if (!figures) return tl::unexpected(figures.error());
  const bool has_layers = !cut.ends.empty();
  std::vector<UnscaledStage> stages =
      has_layers ? *std::move(figures) : in_equal_buckets(*std::move(figures), cut.buckets);
  if (stages.size() != program.placement.stages.size()) {
    throw std::logic_error(fmt::format("the model is cut into {} stages for a program of {}", stages.size(),
                                       program.stage_count()));
  }
  clear_overhead_of_later_buckets(stages, cut.buckets);
  return scaled_table(stages, program, samples);
}

// Computes the costs of the stages and builds the cluster. The program determines the number of weight
// clones. If microbatches differ, the result has a table for each microbatch of one period, and a table of
// the mean. Engines and searches add up costs in 64 bits, so upper bounds of these sums are checked here.

// --- cloned versions -------------------------------------------------------------------------------------
//
// The released runtime of PipeDream clones a stage's weights at the start of training. It makes one clone
// more than the stage has warm-up forwards. The newest clone equals the live weights.

tl::expected<void, std::string> price_cloned_versions(CostTable& costs, const Program& program) {
  const std::vector<StageVersions> versions = weight_versions(program).stages;
  // Weights do not depend on the microbatch, but the table of each microbatch contains them, so all tables
  // are set.
  std::vector<std::vector<StageCost>*> tables = {&costs.stages};
  for (MicrobatchCost& microbatch : costs.microbatches) tables.push_back(&microbatch.stages);
  for (std::vector<StageCost>* stages : tables) {
    for (std::size_t stage = 0; stage < stages->size(); ++stage) {
      StageCost& cost = (*stages)[stage];
      if (!__builtin_mul_overflow(cost.weights, Bytes{versions[stage].kept}, &cost.cloned_weights)) continue;
      return tl::unexpected(
          fmt::format("training.weight_versions: {} clones of stage {}'s weights are more than 2^63 bytes",
                      versions[stage].kept, stage));
    }
  }
  return {};
}

// --- program prices --------------------------------------------------------------------------------------

namespace {

/// Returns the costs of the mean microbatch. If microbatches differ, it also returns the costs of each
/// microbatch. If slices differ, it returns those of each slice instead.
tl::expected<CostTable, std::string> cost_table(const PriceTerms& terms, const StageCut& cut,
                                                const Program& program) {
  const auto* stated = std::get_if<StageFigures>(&terms.model);
  if (stated == nullptr) return stage_costs(terms.model, cut, terms.pricing, program);
  PENSTOCK_ASSIGN_OR_RETURN(const StageFigures figures, stated->as_of_microbatches(program.slices));
  const std::size_t period = figures.microbatch_period(program.microbatches, program.slices);
  const bool slices_differ = figures.slices_differ();
  auto costs = stage_costs(figures, cut, terms.pricing, program);
  if (!costs || (period == 0 && !slices_differ)) return costs;
  // Units are numbered through all microbatches. The slices of a microbatch share an entry of the table
  // unless they differ.
  const auto slices = static_cast<std::size_t>(program.slices);
  costs->slices = slices_differ ? 1 : program.slices;
  const std::size_t step = slices_differ ? 1 : slices;
  for (std::size_t unit = 0; unit < std::max<std::size_t>(period, 1) * slices; unit += step) {
    auto one = stage_costs(figures.at_unit(unit, slices), cut, terms.pricing, program);
    if (!one) {
      return tl::unexpected(fmt::format("{} ({} {} of those listed)", one.error(),
                                        slices_differ ? "slice" : "microbatch", unit / step));
    }
    costs->microbatches.push_back({.stages = std::move(one->stages), .edges = std::move(one->edges)});
  }
  return costs;
}

}  // namespace

tl::expected<CostTable, std::string> program_costs(const PriceTerms& terms, const StageCut& cut,
                                                   const Program& program) {
  auto costs = cost_table(terms, cut, program);
  if (!costs) return costs;
  costs->launch = terms.launch;
  costs->host = terms.host;
  if (!terms.clones_versions) return costs;
  PENSTOCK_RETURN_IF_ERROR(price_cloned_versions(*costs, program));
  return costs;
}

tl::expected<ProgramPrices, std::string> program_prices(const PriceTerms& terms, const StageCut& cut,
                                                        const Program& program) {
  PENSTOCK_ASSIGN_OR_RETURN(CostTable costs, program_costs(terms, cut, program));
  PENSTOCK_ASSIGN_OR_RETURN(Cluster cluster, build_cluster(terms.cluster, program.rank_count()));
  if (auto fault = byte_fault(program, costs)) return tl::unexpected(*std::move(fault));
  if (auto fault = time_fault(program, costs, cluster)) return tl::unexpected(*std::move(fault));
  return ProgramPrices{.costs = std::move(costs), .cluster = std::move(cluster)};
}

// Compares the sizes that the two ends of a message state. The size of a SEND is stated for the stage that
// computes the tensor. The receiving stage of a runtime may allocate its buffer earlier, from its own shapes.
// If the two sizes differ, a transport hangs or cuts the tensor:
//
//   stage 0  activation: 4 MB  --0SEND_F0-->  1RECV_F0  stage 1  expected_activation: 2 MB
//
// Tested by slices_test.cpp.

namespace {

/// Returns, for each program stage, the number of its model stage. A model stage with gradient buckets
/// becomes several program stages.
std::vector<std::int32_t> model_stages(const StageCut& cut, std::int32_t stages) {
  std::vector<std::int32_t> numbers;
  for (std::int32_t stage = 0; stage < stages && cut.buckets.empty(); ++stage) numbers.push_back(stage);
  for (std::size_t stage = 0; stage < cut.buckets.size(); ++stage)
    numbers.insert(numbers.end(), index(cut.buckets[stage]), static_cast<std::int32_t>(stage));
  return numbers;
}

/// A message of a program: its SEND, the bytes that are sent, and the bytes that its RECV expects.
struct Message {
  Action send;
  Bytes sent = 0;
  Bytes expected = 0;
  const PerStage<Bytes>* figure = nullptr;  ///< the value in the model file that states `expected`
};

std::string fault_text(const Message& message, const Program& program) {
  const Action& send = message.send;
  Action receive = send;
  receive.kind = send.kind == ActionKind::send_forward ? ActionKind::recv_forward : ActionKind::recv_backward;
  std::swap(receive.stage, receive.peer);
  return fmt::format(
      "{}: the two ends of a message state unlike sizes: {} on rank {} sends {} B, and {} on rank {} expects "
      "{} B; make both equal",
      message.figure->place, to_text(send), program.placement.rank_of(send.stage, send.microbatch),
      message.sent, to_text(receive), program.placement.rank_of(send.peer, send.microbatch),
      message.expected);
}

/// A comparison of the bytes that SENDs have with the bytes that their RECVs expect.
class BothEnds {
 public:
  /// Creates the comparison. `figures` must hold for whole microbatches. All arguments must outlive this
  /// object.
  BothEnds(const StageFigures& figures, const StageCut& cut, Scaling samples, const Program& program,
           const CostTable& costs)
      : figures_(figures),
        stages_(model_stages(cut, program.stage_count())),
        program_(program),
        costs_(costs),
        numbers_(program),
        scale_(samples) {}

  /// Returns an error message if the SEND and the RECV of the microbatch or slice `unit` have different
  /// sizes. Returns nothing otherwise.
  std::optional<std::string> fault(const StageEdge& edge, Flow flow, std::int32_t unit) {
    const bool goes_on = flow == Flow::activation;
    const PerStage<Bytes>& figure = goes_on ? figures_.expected_activation : figures_.expected_gradient;
    const std::int32_t from = goes_on ? edge.from : edge.to;
    const std::int32_t to = goes_on ? edge.to : edge.from;
    if (!figure.given() || !carries(program_.placement, edge, flow) || !is_message(from, to, unit))
      return std::nullopt;
    const Action send{.kind = goes_on ? ActionKind::send_forward : ActionKind::send_backward,
                      .stage = from,
                      .microbatch = unit,
                      .peer = to};
    const PerStage<Bytes> at_unit = figure.at_unit(index(unit), index(program_.slices));
    const Message message{.send = send,
                          .sent = transfer_bytes(costs_, numbers_, send),
                          .expected = scale_(at_unit.of(stages_[index(to)], 0)),
                          .figure = &figure};
    return message.sent == message.expected ? std::nullopt : std::optional(fault_text(message, program_));
  }

 private:
  /// Returns true if the two stages exchange a message. They do if they are on different ranks and are not
  /// buckets of one model stage.
  bool is_message(std::int32_t from, std::int32_t to, std::int32_t unit) const {
    return stages_[index(from)] != stages_[index(to)] &&
           program_.placement.rank_of(from, unit) != program_.placement.rank_of(to, unit);
  }

  const StageFigures& figures_;
  std::vector<std::int32_t> stages_;
  const Program& program_;
  const CostTable& costs_;
  EdgeNumbers numbers_;
  Scaler scale_;
};

}  // namespace

std::optional<std::string> message_size_fault(const Model& model, const StageCut& cut, Scaling samples,
                                              const Program& program, const CostTable& costs) {
  const auto* stated = std::get_if<StageFigures>(&model);
  if (stated == nullptr) return std::nullopt;
  if (!stated->expected_activation.given() && !stated->expected_gradient.given()) return std::nullopt;
  const auto figures = stated->as_of_microbatches(program.slices);
  if (!figures) return figures.error();
  samples.own *= program.slices;
  BothEnds ends(*figures, cut, samples, program, costs);
  const std::vector<StageEdge> edges = stage_edges(program);
  for (std::int32_t unit = 0; unit < program.unit_count(); ++unit) {
    for (const StageEdge& edge : edges) {
      if (auto fault = ends.fault(edge, Flow::activation, unit)) return fault;
      if (auto fault = ends.fault(edge, Flow::gradient, unit)) return fault;
    }
  }
  return std::nullopt;
}

}  // namespace penstock

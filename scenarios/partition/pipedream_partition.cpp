// Plans pipelines with PipeDream's dynamic programme. It refuses graphs and clusters whose tables would be
// too large. Otherwise it computes the tables of pipedream_partition.hpp and reads the plan from them. It
// reads the stages of the highest level first, and then the stages inside one component, level by level.
// All components of a stage have equal plans.
//
//   entries of a level = downsets * (downsets, or 1 at the highest level) * components
//
// Tested by pipedream_partition_test.cpp.

#include "scenarios/partition/pipedream_partition.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// Returns an error if a table of the dynamic programme has more than 2^25 entries, which take 512 MiB.
tl::expected<void, std::string> check_tables(std::size_t downsets, std::span<const BandwidthLevel> levels);

/// Returns an error if a layer does not fit on any device. It is checked as the only layer of the device,
/// with one minibatch in flight.
tl::expected<void, std::string> check_layers(const LayerGraph& graph, Bytes limit,
                                             std::int64_t state_bytes_per_weight_byte);

namespace {

/// The largest number of table entries. An entry consists of a period and ring bytes. So many entries take
/// 512 MiB.
constexpr std::size_t kMostTableEntries = std::size_t{1} << 25;

/// Returns a downset that contains only this layer.
Downset alone(const Layer& layer) {
  Downset set;
  set.kept = layer.kept_bytes();
  set.weights = layer.weights;
  return set;
}

}  // namespace

tl::expected<void, std::string> check_tables(std::size_t downsets, std::span<const BandwidthLevel> levels) {
  for (std::size_t level = 0; level < levels.size(); ++level) {
    const std::size_t targets = level + 1 == levels.size() ? 1 : downsets;
    const std::size_t entries = downsets * targets * static_cast<std::size_t>(levels[level].components);
    if (entries <= kMostTableEntries) continue;
    return tl::unexpected(fmt::format(
        "planning {} downsets of layers over {} components of {} bandwidth level{} takes a table of {} "
        "entries, more than {}: merge layers, or take fewer devices",
        downsets, levels[level].components, levels.size(), levels.size() == 1 ? "" : "s", entries,
        kMostTableEntries));
  }
  return {};
}

tl::expected<void, std::string> check_layers(const LayerGraph& graph, Bytes limit, std::int64_t state_bytes) {
  const Layer* largest = nullptr;
  Bytes most = limit;
  Bytes state = 0;
  for (const Layer& layer : graph.layers) {
    const Downset own = alone(layer);
    const Bytes held = held_bytes({}, own, 1, state_bytes);
    // The message names the largest of the layers that do not fit.
    if (held <= most) continue;
    largest = &layer;
    most = held;
    // Without a minibatch in flight, held_bytes() returns only the bytes of gradients and optimizer state.
    state = held_bytes({}, own, 0, state_bytes) - layer.weights;
  }
  if (largest == nullptr) return {};
  return tl::unexpected(fmt::format(
      "the layer {} is larger than a device: alone and with one minibatch in flight it needs {} bytes "
      "(activations {}, weights {}, gradients {}, optimizer state {}), a device has {}; take a smaller "
      "minibatch, split the layer, or take devices with more memory",
      largest->name, most, largest->kept_bytes(), largest->weights, largest->weights, state, limit));
}

namespace {

// --- from levels to devices -----------------------------------------------------------------------------

/// The links over which the messages of a cut travel: their number, and the time of one minibatch on one
/// link.
struct CutLinks {
  double ns = 0;
  std::int32_t links = 1;
};

/// A pipeline on one level of bandwidth. It has several equal copies, and `first_devices` has the first
/// device of each copy.
struct Pipeline {
  std::size_t level = 0;
  std::vector<LevelStage> stages;
  std::vector<std::int32_t> first_devices;
  WorkAhead ahead;
  double reduction_ns = 0;  // the reduction time of higher levels for each minibatch
  CutLinks cut{};           // the cut after the last stage
};

class PlanReader {
 public:
  PlanReader(std::span<const Downset> downsets, std::span<const BandwidthLevel> levels,
             PipeDreamLevels& programme, PlanObjective objective)
      : downsets_(downsets), levels_(levels), programme_(programme), objective_(objective) {}

  std::vector<PlannedStage> read(const LevelStage& whole) {
    const std::size_t highest = levels_.size() - 1;
    flatten({.level = highest,
             .stages = programme_.stages(highest, whole, {}),
             .first_devices = {0},
             .ahead = {}});
    return std::move(stages_);
  }

 private:
  /// Appends the stages of the pipeline with their devices, from the first to the last.
  void flatten(const Pipeline& pipeline) {
    std::int32_t component = 0;
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      const LevelStage& stage = pipeline.stages[s];
      const std::vector<std::int32_t> firsts = components_of(pipeline, stage, component);
      component += stage.replicas;
      const double reduction = reduction_ns(pipeline, s);
      const CutLinks cut = cut_links(pipeline, s);
      if (pipeline.level == 0) {
        stages_.push_back(planned(stage, firsts));
        stages_.back().reduction_ns = reduction;
        stages_.back().cut_ns = cut.ns;
        stages_.back().cut_links = cut.links;
        continue;
      }
      // Above the lowest level, a stage contains a pipeline of the next lower level, which uses all
      // components of that level. All components of the stage have the same plan. So this plan is read once,
      // with the first device of each component.
      const std::size_t below = pipeline.level - 1;
      const LevelStage whole{
          .from = stage.from, .to = stage.to, .replicas = levels_[below].components, .later = 0};
      const WorkAhead ahead = programme_.ahead_of(pipeline.level, stage, pipeline.ahead);
      flatten({.level = below,
               .stages = programme_.stages(below, whole, ahead),
               .first_devices = firsts,
               .ahead = ahead,
               .reduction_ns = reduction,
               .cut = cut});
    }
  }

  /// Returns the time of all gradient reductions of stage `s`, divided by the number of minibatches. It
  /// includes the reductions at higher levels of bandwidth. The copies of the pipeline share the minibatches.
  /// Each copy reduces once when every component of the stage has run one minibatch.
  double reduction_ns(const Pipeline& pipeline, std::size_t s) const {
    const LevelStage& stage = pipeline.stages[s];
    const auto minibatches = static_cast<double>(pipeline.first_devices.size()) * stage.replicas;
    const StagePlace place = s == 0 ? StagePlace::first : StagePlace::later;
    const double own = programme_.reduction_ns(pipeline.level, stage, place, pipeline.ahead) / minibatches;
    return objective_ == PlanObjective::sum ? pipeline.reduction_ns + own
                                            : std::max(pipeline.reduction_ns, own);
  }

  /// Returns the links of the cut after stage `s`. Each copy of the pipeline has its own links. For the
  /// last stage, this is the cut at which the outputs leave the component.
  CutLinks cut_links(const Pipeline& pipeline, std::size_t s) const {
    const LevelStage& stage = pipeline.stages[s];
    if (s + 1 == pipeline.stages.size()) {
      if (s == 0 || objective_ != PlanObjective::sum) return pipeline.cut;
      const CutLinks own = cut_of(pipeline, stage.to, stage.replicas);
      return own.ns / own.links > pipeline.cut.ns / pipeline.cut.links ? own : pipeline.cut;
    }
    // In PipeDream's formula, the time of the first stage includes no cut. So the cut after it uses the
    // replicas of the second stage. If the times of both stages include the cut, the longer time applies.
    // This is the time of the stage with fewer replicas.
    const std::int32_t behind = pipeline.stages[s + 1].replicas;
    return cut_of(pipeline, stage.to, s == 0 ? behind : std::min(stage.replicas, behind));
  }

  CutLinks cut_of(const Pipeline& pipeline, std::size_t downset, std::int32_t replicas) const {
    CutLinks cut{.ns = programme_.cut_ns(pipeline.level, downset, replicas),
                 .links = static_cast<std::int32_t>(pipeline.first_devices.size())};
    // The objective `sum` adds the time for the reduction at higher levels to the slowest part inside a
    // component.
    if (objective_ == PlanObjective::sum && cut.ns > 0) cut.ns += pipeline.reduction_ns * cut.links;
    return cut;
  }

  /// Returns the first device of each component of the stage. The order keeps a minibatch inside one
  /// component in all stages that this component contains.
  std::vector<std::int32_t> components_of(const Pipeline& pipeline, const LevelStage& stage,
                                          std::int32_t component) const {
    std::int32_t devices = 1;
    for (std::size_t below = 0; below < pipeline.level; ++below) devices *= levels_[below].components;
    std::vector<std::int32_t> firsts;
    for (std::int32_t replica = 0; replica < stage.replicas; ++replica) {
      for (const std::int32_t first : pipeline.first_devices)
        firsts.push_back(first + (component + replica) * devices);
    }
    return firsts;
  }

  /// Returns a stage of the plan with its devices. Its `held` is the bytes of one minibatch. The number of
  /// minibatches in flight is computed later, when all stages are known.
  PlannedStage planned(const LevelStage& stage, const std::vector<std::int32_t>& devices) const {
    const Downset& after = downsets_[stage.to];
    Downset before = downsets_[stage.from];
    if (stage.from == 0)
      before.members.assign(before.members.size(), 0);  // the layers of the first downset have no costs
    return {.layers = layers_between(before, after),
            .devices = devices,
            .in_flight = 1,
            .compute_ns = after.time_ns - before.time_ns,
            .weights = after.weights - before.weights,
            .cut = after.alive,
            .held = after.kept - before.kept};
  }

  std::span<const Downset> downsets_;
  std::span<const BandwidthLevel> levels_;
  PipeDreamLevels& programme_;
  PlanObjective objective_;
  std::vector<PlannedStage> stages_;
};

/// Returns one stage that holds all layers on all components of the highest level. If no plan fits in
/// memory, it uses fewer components. For a straight pipeline with fewer layers than devices, it uses the
/// best number of components.
std::optional<LevelStage> best_use(PipeDreamLevels& programme, std::span<const Downset> downsets,
                                   std::span<const BandwidthLevel> levels) {
  const std::size_t highest = levels.size() - 1;
  std::optional<LevelStage> best;
  double least = std::numeric_limits<double>::infinity();
  // The largest number of components comes first. Smaller numbers are tried only if no plan fits, or if
  // devices are idle in any case.
  for (std::int32_t components = levels[highest].components; components > 0; --components) {
    if (best && !programme.may_idle()) break;
    const LevelStage whole{.from = 0, .to = downsets.size() - 1, .replicas = components, .later = 0};
    const double period = programme.period_ns(highest, whole, {});
    if (period >= least) continue;
    least = period;
    best = whole;
  }
  return best;
}

// --- planning -------------------------------------------------------------------------------------------

/// A planner that runs the dynamic programme on the downsets of a graph.
class Planner {
 public:
  using Downsets = std::vector<Downset>;

  Planner(Downsets downsets, const LayerGraph& graph, std::span<const BandwidthLevel> levels,
          const PlanOptions& options, std::int64_t state_bytes)
      : downsets_(std::move(downsets)),
        graph_(graph),
        levels_(levels),
        objective_(options.objective),
        state_bytes_(state_bytes),
        programme_(downsets_, levels, options,
                   {.state_bytes_per_weight_byte = state_bytes, .overhead_ns = graph.overhead_ns}) {}

  std::optional<LevelStage> best() { return best_use(programme_, downsets_, levels_); }

  /// Returns a stage with the whole model on `components` components of the highest level.
  LevelStage whole_on(std::int32_t components) const {
    return {.from = 0, .to = downsets_.size() - 1, .replicas = components, .later = 0};
  }

  double period_ns(const LevelStage& whole) { return programme_.period_ns(levels_.size() - 1, whole, {}); }

  PipelinePlan plan(const LevelStage& whole) {
    auto stages = PlanReader(downsets_, levels_, programme_, objective_).read(whole);
    return {.period_ns = period_ns(whole),
            .stages = with_minibatches_in_flight(std::move(stages), graph_, state_bytes_)};
  }

 private:
  Downsets downsets_;
  const LayerGraph& graph_;
  std::span<const BandwidthLevel> levels_;
  PlanObjective objective_;
  std::int64_t state_bytes_;
  PipeDreamLevels programme_;
};

tl::expected<Planner, std::string> planner_of(const LayerGraph& graph, std::span<const BandwidthLevel> levels,
                                              const PlanOptions& options, std::int64_t state_bytes) {
  if (graph.layers.empty()) return tl::unexpected(std::string("the model has no layers to plan"));
  auto downsets = planned_downsets_of(graph);
  if (!downsets) return tl::unexpected(downsets.error());
  if (auto fits = check_tables(downsets->size(), levels); !fits) return tl::unexpected(fits.error());
  if (options.memory_limit) {
    if (auto fit = check_layers(graph, *options.memory_limit, state_bytes); !fit)
      return tl::unexpected(fit.error());
  }
  return tl::expected<Planner, std::string>(tl::in_place, *std::move(downsets), graph, levels, options,
                                            state_bytes);
}

}  // namespace

tl::expected<PipelinePlan, std::string> plan_pipeline(const LayerGraph& graph,
                                                      std::span<const BandwidthLevel> levels,
                                                      const PlanOptions& options,
                                                      std::int64_t state_bytes_per_weight_byte) {
  auto planner = planner_of(graph, levels, options, state_bytes_per_weight_byte);
  if (!planner) return tl::unexpected(planner.error());
  if (const auto whole = planner->best()) return planner->plan(*whole);
  return tl::unexpected(fmt::format(
      "no plan keeps what a device holds within {} bytes, though each layer fits one alone; take a smaller "
      "minibatch, more devices, or devices with more memory",
      options.memory_limit.value_or(0)));
}

std::vector<PipelinePlan> plans_on_each(const LayerGraph& graph, std::span<const BandwidthLevel> levels,
                                        const PlanOptions& options,
                                        std::int64_t state_bytes_per_weight_byte) {
  auto planner = planner_of(graph, levels, options, state_bytes_per_weight_byte);
  std::vector<PipelinePlan> plans;
  if (!planner) return plans;
  for (std::int32_t components = 1; components <= levels.back().components; ++components) {
    const LevelStage whole = planner->whole_on(components);
    if (std::isfinite(planner->period_ns(whole))) plans.push_back(planner->plan(whole));
  }
  return plans;
}

std::vector<PlannedStage> with_minibatches_in_flight(std::vector<PlannedStage> stages,
                                                     const LayerGraph& graph, std::int64_t state_bytes) {
  // The loop runs from the last stage to the first, because each stage needs the number of later devices.
  std::int32_t here_and_later = 0;
  for (std::size_t s = stages.size(); s-- > 0;) {
    PlannedStage& stage = stages[s];
    const auto replicas = static_cast<std::int32_t>(stage.devices.size());
    here_and_later += replicas;
    // The minibatches of the warm-up, and the minibatch that is being computed.
    stage.in_flight = round_robin_warmup(here_and_later, replicas) + 1;
    stage.compute_ns += 2 * graph.overhead_ns;
    Downset layers;
    layers.kept = stage.held;
    layers.weights = stage.weights;
    stage.held = held_bytes({}, layers, stage.in_flight, state_bytes);
  }
  return stages;
}

double recurrence_period_ns(const PipelinePlan& plan, PlanObjective objective) {
  double period = 0;
  for (const PlannedStage& stage : plan.stages) {
    const double compute = static_cast<double>(stage.compute_ns) / static_cast<double>(stage.devices.size());
    const double time = objective == PlanObjective::sum ? compute + stage.reduction_ns
                                                        : std::max(compute, stage.reduction_ns);
    period = std::max({period, time, stage.cut_ns / stage.cut_links});
  }
  return period;
}

double bytes_per_minibatch(const PipelinePlan& plan, std::int32_t reduced) {
  double bytes = 0;
  // Each cut carries an activation and its gradient. A stage with r replicas and W bytes of weights also
  // reduces its gradients: the ring sends 2 (r - 1) W bytes once for every r minibatches.
  for (const PlannedStage& stage : plan.stages) {
    const auto replicas = static_cast<double>(stage.devices.size());
    bytes += 2 * static_cast<double>(stage.cut);
    const double together = reduced == 0 ? replicas : reduced;
    bytes += 2 * (replicas - 1) / together * static_cast<double>(stage.weights);
  }
  return bytes;
}

// Computes the period of a plan with given stages. Messages between servers have the bandwidth between
// servers, and all other messages have the bandwidth inside a server:
//
//   period = max over stages of  max( T/m, 2(m-1) W / (B m^2) )   and over cuts of  2 a / B
//
// This is the objective `maximum` of pipedream_levels.cpp for a pipeline of a single level. Tested by
// planned_scenario_test.cpp.

namespace {

/// Returns the bandwidth of the lowest level at which one component contains all `devices`, in bytes per
/// nanosecond.
double bandwidth_around(std::span<const BandwidthLevel> levels, std::span<const std::int32_t> devices) {
  std::int32_t size = 1;
  for (const BandwidthLevel& level : levels) {
    // Devices are numbered level by level, so the devices of one component have adjacent numbers.
    size *= level.components;
    const auto is_inside = [&](std::int32_t device) { return device / size == devices.front() / size; };
    if (std::ranges::all_of(devices, is_inside)) return level.bytes_per_second / 1e9;
  }
  return levels.back().bytes_per_second / 1e9;
}

/// Returns, for each layer, the last stage that reads its output. If no stage reads the output, returns the
/// layer's own stage.
std::vector<std::size_t> last_readers(const LayerGraph& graph, const std::vector<StatedStage>& stages) {
  std::vector<std::size_t> last(graph.layers.size(), 0);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const std::int32_t layer : stages[s].layers) {
      last[static_cast<std::size_t>(layer)] = s;
      // Stages are visited in pipeline order, so the last value that is written here is the last reader.
      for (const std::int32_t input : graph.layers[static_cast<std::size_t>(layer)].inputs)
        last[static_cast<std::size_t>(input)] = s;
    }
  }
  return last;
}

/// Returns a stage with the sums of its layers' figures. Its `held` is the bytes of one minibatch.
PlannedStage with_sums(const LayerGraph& graph, const StatedStage& stated) {
  PlannedStage stage{.layers = stated.layers, .devices = stated.devices};
  for (const std::int32_t index : stated.layers) {
    const Layer& layer = graph.layers[static_cast<std::size_t>(index)];
    stage.compute_ns += layer.forward_ns + layer.backward_ns;
    stage.weights += layer.weights;
    stage.held += layer.kept_bytes();
  }
  return stage;
}

}  // namespace

PipelinePlan stated_plan(const LayerGraph& graph, std::span<const BandwidthLevel> levels,
                         const std::vector<StatedStage>& stages, std::int64_t state_bytes_per_weight_byte) {
  PipelinePlan plan;
  const std::vector<std::size_t> last = last_readers(graph, stages);
  Bytes alive = 0;
  std::vector<Bytes> dies(stages.size(), 0);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    PlannedStage stage = with_sums(graph, stages[s]);
    for (const std::int32_t index : stages[s].layers) {
      const auto layer = static_cast<std::size_t>(index);
      alive += graph.layers[layer].output;
      // An output crosses every cut between its own stage and the last stage that reads it.
      dies[last[layer]] += graph.layers[layer].output;
    }
    // An output is no longer alive after the last stage that reads it, or after its own stage if no stage
    // reads it.
    alive -= dies[s];
    stage.cut = alive;
    const auto replicas = static_cast<double>(stage.devices.size());
    // Each replica of a ring sends 2(m-1)/m of the weights. This time is divided by m, because there is one
    // reduction for every m minibatches.
    stage.reduction_ns = 2 * (replicas - 1) * static_cast<double>(stage.weights) /
                         (bandwidth_around(levels, stage.devices) * replicas * replicas);
    if (s + 1 < stages.size()) {
      std::vector<std::int32_t> around = stage.devices;
      around.insert(around.end(), stages[s + 1].devices.begin(), stages[s + 1].devices.end());
      // The cut carries the activation forward and its gradient backward.
      stage.cut_ns = 2 * static_cast<double>(stage.cut) / bandwidth_around(levels, around);
    }
    plan.stages.push_back(std::move(stage));
  }
  plan.stages = with_minibatches_in_flight(std::move(plan.stages), graph, state_bytes_per_weight_byte);
  plan.period_ns = recurrence_period_ns(plan, PlanObjective::maximum);
  return plan;
}

}  // namespace penstock

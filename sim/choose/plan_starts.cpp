// Lists the plans from which the search starts: simple plans for any model, and the plans of PipeDream's
// recurrences. A recurrence's plan is tried on the devices that the recurrence has chosen, and with its
// devices in order. Tests: tests/sim/plan_search_test.cpp.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "sim/choose/plan_trials.hpp"

namespace penstock {

namespace {

constexpr std::int32_t kMostEvenStages = 16;  // largest number of stages in starts with even stages
// The largest number of buckets that is tried. A stage has at most as many buckets as layers.
constexpr std::int32_t kTriedBuckets = 4;

/// A variant of the recurrence that proposes plans. Each variant has another objective.
struct Proposer {
  PlanObjective objective;
  PlanFamily family;
  std::string_view name;
};
constexpr std::array kProposers = {
    Proposer{PlanObjective::sum, PlanFamily::sum, "sum"},
    Proposer{PlanObjective::maximum, PlanFamily::maximum, "maximum"},
    Proposer{PlanObjective::maximum_printed, PlanFamily::maximum_printed, "maximum-printed"}};

/// Returns cuts with which the stages take about equally long. Each cut is after the layer at which the sum
/// of times is nearest to an equal share.
std::vector<std::int32_t> even_cuts(const LayerGraph& graph, std::int32_t stages) {
  std::vector<double> before = {0};
  for (const Layer& layer : graph.layers)
    before.push_back(before.back() + static_cast<double>(layer.forward_ns + layer.backward_ns));
  // before[i] is the sum over the first i layers, so i is a possible cut.
  std::vector<std::int32_t> cuts;
  const auto layers = static_cast<std::int32_t>(graph.layers.size());
  for (std::int32_t stage = 1; stage < stages; ++stage) {
    const double share = before.back() * stage / stages;
    const auto above = std::ranges::lower_bound(before, share) - before.begin();
    auto cut = static_cast<std::int32_t>(above);
    if (cut > 0 &&
        share - before[static_cast<std::size_t>(cut - 1)] < before[static_cast<std::size_t>(cut)] - share)
      --cut;
    // Every stage needs a layer, so a cut must leave at least one layer for this stage and for each later
    // one.
    const std::int32_t least = cuts.empty() ? 1 : cuts.back() + 1;
    cuts.push_back(std::clamp(cut, least, layers - (stages - stage)));
  }
  return cuts;
}

/// A list of all starts: the plans from which a search improves. Of several starts with the same choice, only
/// the first one is stored.
class Starts {
 public:
  Starts(const PlanningTask& task, PlanTrials& trials)
      : task_(task), trials_(trials), devices_(trials.devices()), layers_(trials.layers()) {}

  std::vector<PlanStart> all() {
    const bool replicates = task_.options.form == PlanForm::replicated;
    if (replicates) add(PlanFamily::data_parallel, "data parallel", {.cuts = {}, .replicas = {devices_}});
    add_even(PlanFamily::straight, std::min(devices_, layers_), 1, "straight");
    for (std::int32_t stages = 2; stages <= std::min({kMostEvenStages, devices_, layers_}); ++stages) {
      // The remaining devices are idle at the start. A later move may use them.
      const std::int32_t replicas = replicates ? devices_ / stages : 1;
      add_even(PlanFamily::even, stages, replicas, fmt::format("even {} x {}", stages, replicas));
    }
    for (std::int32_t first = 1; replicates && first < devices_; ++first) {
      for (std::int32_t cut = 1; cut < layers_; ++cut) {
        add(PlanFamily::two_stages, fmt::format("two stages {}-{} at {}", first, devices_ - first, cut),
            {.cuts = {cut}, .replicas = {first, devices_ - first}});
      }
    }
    for (const Proposer& proposer : kProposers) add_recurrence(proposer);
    return std::move(found_);
  }

 private:
  void add(PlanFamily family, std::string name, PlanChoice choice, std::optional<double> promised_ns = {}) {
    if (!known_.insert(choice).second) return;
    found_.push_back(
        {.family = family, .name = std::move(name), .choice = std::move(choice), .promised_ns = promised_ns});
  }

  void add_even(PlanFamily family, std::int32_t stages, std::int32_t replicas, std::string name) {
    add(family, std::move(name),
        {.cuts = even_cuts(task_.layers, stages),
         .replicas = std::vector<std::int32_t>(static_cast<std::size_t>(stages), replicas)});
  }

  /// Adds the plans of a recurrence for three clusters: the cluster with its levels, one server, and all
  /// devices in a single level.
  void add_recurrence(const Proposer& proposer) {
    const std::vector<BandwidthLevel>& levels = task_.levels;
    add_plans(proposer, levels, "");
    if (levels.size() == 1) return;
    const std::vector<BandwidthLevel> one_server = {levels.front()};
    // In this cluster, the links between all devices have the bandwidth of the highest level. The stages of a
    // plan then need not fill one server after another.
    const std::vector<BandwidthLevel> flat = {{devices_, levels.back().bytes_per_second}};
    add_plans(proposer, one_server, "");
    add_plans(proposer, flat, ", one level");
  }

  /// Adds the recurrence's plan for each number of components (parts of the cluster, such as servers). Each
  /// plan is added with its devices in order, and with its own devices if they differ. A plan on fewer
  /// devices may be faster in the simulation, even if the recurrence prefers all devices.
  void add_plans(const Proposer& proposer, std::span<const BandwidthLevel> levels, std::string_view how) {
    PlanOptions options = task_.options;
    options.objective = proposer.objective;
    for (const PipelinePlan& plan :
         plans_on_each(task_.layers, levels, options, task_.state_bytes_per_weight_byte)) {
      PlanChoice choice = choice_of(plan);
      const std::string name = fmt::format("{} on {}{}", proposer.name, choice.device_count(), how);
      const bool in_order = std::ranges::is_sorted(choice.devices);
      PlanChoice ordered = choice;
      ordered.placement = PlanPlacement::in_order;
      ordered.devices.clear();
      add(proposer.family, name, std::move(ordered), plan.period_ns);
      if (!in_order) add(proposer.family, name + ", its devices", std::move(choice), plan.period_ns);
    }
  }

  /// Returns the choice that stands for a recurrence's plan, with its devices and its order of layers. In a
  /// graph with branches, this order may differ from the model's order.
  PlanChoice choice_of(const PipelinePlan& plan) {
    PlanChoice choice{.cuts = {}, .replicas = {}, .placement = PlanPlacement::stated};
    std::vector<std::int32_t> order;
    for (const PlannedStage& stage : plan.stages) {
      if (!order.empty()) choice.cuts.push_back(static_cast<std::int32_t>(order.size()));
      order.insert(order.end(), stage.layers.begin(), stage.layers.end());
      choice.replicas.push_back(static_cast<std::int32_t>(stage.devices.size()));
      choice.devices.insert(choice.devices.end(), stage.devices.begin(), stage.devices.end());
    }
    choice.order = trials_.order_for(std::move(order), choice.cuts);
    return choice;
  }

  const PlanningTask& task_;
  PlanTrials& trials_;
  std::int32_t devices_;
  std::int32_t layers_;
  std::set<PlanChoice> known_;
  std::vector<PlanStart> found_;
};

}  // namespace

std::vector<PlanStart> plan_starts(const PlanningTask& task, PlanTrials& trials) {
  return Starts(task, trials).all();
}

/// Returns variants of a start. Each variant changes one property of the start. A change without effect is
/// left out.
std::vector<PlanStart> variants_of(const PlanStart& start, const PlanningTask& task) {
  std::vector<PlanStart> variants;
  if (reduces(start.choice)) {
    PlanStart& in_buckets = variants.emplace_back(start);
    in_buckets.name += fmt::format(", {} buckets", kTriedBuckets);
    in_buckets.choice.buckets = kTriedBuckets;
  }
  if (start.choice.stages() > 1) {
    PlanStart& deeper = variants.emplace_back(start);
    deeper.name += ", one deeper";
    deeper.choice.deeper = 1;
  }
  // With only one level, the cluster is a single server, so replicas cannot be spread over servers.
  if (task.levels.size() > 1) {
    PlanStart& spread = variants.emplace_back(start);
    spread.name += ", spread";
    spread.choice.placement = PlanPlacement::spread;
    spread.choice.devices.clear();
  }
  return variants;
}

}  // namespace penstock

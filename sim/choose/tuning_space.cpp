// Builds the space of configurations by nested loops over all choices. Each rule is checked in the
// outermost loop in which this is possible:
//
//     nodes > tensor > context, exchange > stages > data (what is left) > expert > microbatch >
//     recomputation, sharding > schedule > v > layout
//
// fault_of() has the rules about divisibility. This file contains all other rules. Tests:
// tests/sim/tuning_space_test.cpp.

#include "sim/choose/tuning_space.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/launchers.hpp"

namespace penstock {

namespace {

constexpr std::int32_t kMostMicrobatchSamples = 16;
/// The degrees of recomputation that are tried. With fused attention, `selective` has nothing to recompute,
/// so it is tried only if the user names it.
constexpr std::array kRecomputes = {LayerRecompute::none, LayerRecompute::selective, LayerRecompute::full};
constexpr std::array kExchanges = {ContextExchange::ring, ContextExchange::all_to_all};
constexpr std::array kOrders = {PlacementOrder::tp_cp_ep_dp_pp, PlacementOrder::tp_cp_ep_pp_dp};
/// The schedule in which the exchange of experts runs beside the computation of another microbatch.
constexpr std::string_view kExpertPairs = "ep-1f1b";
/// The degrees of ZeRO sharding that can be predicted.
constexpr std::array kShardings = {0, 1, 2, 3};

/// Returns true if the request allows the value. An empty list allows all values.
template <typename Value>
bool allows(const std::vector<Value>& choices, Value value) {
  return choices.empty() || std::ranges::find(choices, value) != choices.end();
}

/// Returns the divisors of a number in ascending order. The number counts devices or experts, so it is small
/// enough to try all numbers.
std::vector<std::int32_t> divisors(std::int64_t number) {
  std::vector<std::int32_t> found;
  for (std::int32_t i = 1; i <= number; ++i) {
    if (number % i == 0) found.push_back(i);
  }
  return found;
}

/// Returns true if the schedule trains one pipeline synchronously with one copy of the weights. The table
/// also marks the schedules in kOthers as synchronous, but they do not fulfil this: data-parallel has no
/// pipeline, dualpipe, chimera and gems have two ranks for a stage, pipedream-2bw uses the weights of the
/// previous minibatch, and an encoder or a divided output layer has stages of its own.
bool is_tunable(const ScheduleInfo& schedule) {
  constexpr std::array<std::string_view, 5> kOthers = {"data-parallel", "dualpipe", "chimera", "gems",
                                                       "pipedream-2bw"};
  return !schedule.asynchronous && extra_stages_of(schedule.name) == ExtraStages::none &&
         std::ranges::find(kOthers, schedule.name) == kOthers.end();
}

/// The steps of the nested loops. Each is named after the last rule that a configuration has met there; later
/// rules may exclude the configuration.
enum class Step : std::uint8_t { begun, filled, priced, batched, sharded, scheduled, cut };

/// The nested loops that the comment at the top of this file lists. now_ has the choices of the outer loops.
class Space {
 public:
  Space(const TuneRequest& request, std::vector<const ScheduleInfo*> schedules)
      : request_(request),
        choices_(request.choices),
        work_(model_of(request).work),
        schedules_(std::move(schedules)) {}

  std::vector<Configuration> all() {
    const std::int32_t own = request_.base.cluster.named->nodes;
    for (const std::int32_t nodes :
         request_.nodes.empty() ? std::vector<std::int32_t>{own} : request_.nodes) {
      now_.nodes = nodes;
      devices_ = std::int64_t{nodes} * work_.device.devices_per_node;
      add_degrees();
    }
    // The loops are not in the order of the members of Configuration, so the result is sorted.
    std::ranges::sort(found_);
    return std::move(found_);
  }

  /// Returns the reason why the space is empty: the rule that excluded the configurations of the latest step
  /// that any configuration has reached.
  std::string what_ended_all() const {
    switch (farthest_) {
      case Step::begun:
        return fmt::format(
            "expected tensor x context x stages x data that make {} devices (tensor at most {}, experts in "
            "equal "
            "parts)",
            devices_, work_.device.nvlink_devices);
      case Step::filled:
        return fault_;
      case Step::priced:
        return fmt::format(
            "expected microbatches of 1, 2, 4, .. {} samples that divide a global batch of {} shared by the "
            "copies "
            "({} copies in the last one tried)",
            kMostMicrobatchSamples, request_.global_batch_size, now_.data);
      case Step::batched:
        return fmt::format(
            "ZeRO {} shares out what copies of the weights hold and needs two copies: data x context is 1",
            fmt::join(choices_.sharding, ", "));
      case Step::sharded:
        return faulty_ == farthest_ && !fault_.empty()
                   ? fault_
                   : "no schedule asked for takes the virtual stages asked for";
      case Step::scheduled:
        return uncut_text();
      case Step::cut:
        break;
    }
    return {};
  }

 private:
  void add_degrees() {
    for (const std::int32_t tensor : divisors(devices_)) {
      if (!allows(choices_.tensor, tensor) || tensor > work_.device.nvlink_devices) continue;
      now_.tensor = tensor;
      for (const std::int32_t context : divisors(devices_ / tensor)) {
        if (!allows(choices_.context, context)) continue;
        now_.context = context;
        for (const ContextExchange exchange : kExchanges) {
          // A single device exchanges nothing, so only one kind of exchange is tried.
          if (context == 1 && exchange != ContextExchange::ring) continue;
          if (context > 1 && !allows(choices_.context_exchange, exchange)) continue;
          now_.context_exchange = exchange;
          add_pipelines();
        }
      }
    }
  }

  void add_pipelines() {
    const std::int64_t copies = devices_ / now_.tensor / now_.context;
    for (const std::int32_t stages : divisors(copies)) {
      now_.stages = stages;
      now_.data = static_cast<std::int32_t>(copies / stages);
      if (!allows(choices_.stages, stages) || !allows(choices_.data, now_.data)) continue;
      const std::int64_t experts = work_.model.experts ? work_.model.experts->count : 1;
      for (const std::int32_t expert : divisors(experts)) {
        if (!allows(choices_.expert, expert)) continue;
        now_.expert = expert;
        reach(Step::filled);
        if (is_priced()) add_orders();
      }
    }
  }

  /// Tries the order of parallelisms that the scenario states, or all allowed orders if it states none. If
  /// both orders number the devices equally, tries only the default order.
  void add_orders() {
    const PlacementOrder usual = Parallel{}.order;
    const PlacementOrder stated = model_of(request_).work.parallel.order;
    const bool differ = orders_differ(work_.parallel, now_.stages, work_.device);
    const bool is_stated = model_of(request_).states_order && choices_.order.empty();
    for (const PlacementOrder order : kOrders) {
      const bool is_allowed = is_stated ? order == stated : allows(choices_.order, order);
      if (differ ? !is_allowed : order != usual) continue;
      now_.order = order;
      add_batches();
    }
    now_.order = usual;
  }

  /// Returns true if the degrees divide heads, widths, sequences and experts, so that the costs can be
  /// computed.
  bool is_priced() {
    set_choices(work_, now_);
    const auto fault = fault_of(work_);
    if (fault) keep_fault(Step::filled, *fault);
    return !fault;
  }

  void reach(Step step) { farthest_ = std::max(farthest_, step); }
  /// Stores the reason why a configuration was excluded at this step. Does nothing if some configuration has
  /// reached a later step, or if a reason for this step is already stored.
  void keep_fault(Step step, const std::string& fault) {
    if (step < farthest_ || (step == faulty_ && !fault_.empty())) return;
    faulty_ = step;
    fault_ = fault;
  }

  /// Returns the message that the layers cannot be divided into any of the tried numbers of stages. It names
  /// the first few numbers.
  std::string uncut_text() const {
    constexpr std::size_t kNamed = 8;
    std::vector<std::string> numbers;
    numbers.reserve(uncut_.size());
    for (const std::int32_t stages : uncut_) numbers.push_back(fmt::to_string(stages));
    if (numbers.size() > kNamed) {
      numbers.resize(kNamed);
      numbers.emplace_back("..");
    }
    std::vector<std::string> rules;
    rules.reserve(request_.layer_splits.size());
    for (const LayerSplit& split : request_.layer_splits) rules.push_back(to_text(split));
    return fmt::format(
        "{} layers divide over none of the stages asked for, virtual ones counted ({}), by layer_split {}; "
        "take "
        "--layer-split balanced",
        work_.model.layers.size(), fmt::join(numbers, ", "), fmt::join(rules, ", "));
  }

  /// Tries all microbatch sizes that divide the global batch, and then recomputation and sharding.
  void add_batches() {
    reach(Step::priced);
    for (std::int32_t samples = 1; samples <= kMostMicrobatchSamples; samples *= 2) {
      const std::int64_t together = std::int64_t{samples} * now_.data;
      if (!allows(choices_.micro_batch_size, samples) || request_.global_batch_size % together != 0) continue;
      now_.micro_batch_size = samples;
      now_.microbatches = static_cast<std::int32_t>(request_.global_batch_size / together);
      reach(Step::batched);
      for (const LayerRecompute recompute : kRecomputes) {
        if (!allows(choices_.recompute, recompute) || is_twin_of_none(recompute)) continue;
        now_.recompute = recompute;
        add_shardings();
      }
    }
  }

  /// Returns true if `recompute` has the same costs as no recomputation, and no recomputation is allowed as
  /// well. With a fused attention kernel, selective recomputation has nothing to recompute.
  bool is_twin_of_none(LayerRecompute recompute) const {
    return recompute == LayerRecompute::selective && traits_of(work_.framework).fused_attention &&
           allows(choices_.recompute, LayerRecompute::none);
  }

  void add_shardings() {
    for (const std::int32_t sharding : kShardings) {
      if (!allows(choices_.sharding, sharding)) continue;
      if (sharding > 0 && now_.data * now_.context == 1) continue;
      now_.sharding = sharding;
      reach(Step::sharded);
      add_schedules();
    }
  }

  void add_schedules() {
    if (now_.stages == 1) {
      add_single_stage("1f1b");
      if (std::ranges::any_of(schedules_, [&](const ScheduleInfo* s) { return s->name == kExpertPairs; }) &&
          hides_exchange())
        add_single_stage(kExpertPairs);
      return;
    }
    for (const ScheduleInfo* schedule : schedules_) {
      now_.schedule = schedule->name;
      if (schedule->name == kExpertPairs && !hides_exchange()) continue;
      for (const std::int32_t chunks : chunks_of_schedule(*schedule)) {
        if (!allows(choices_.virtual_stages, chunks)) continue;
        now_.virtual_stages = chunks;
        if (is_taken(*schedule)) add_layouts();
      }
    }
  }

  /// Returns true if EP-1F1B must be tried. This is the case if devices share experts, so that its pairs
  /// have an exchange to hide. If the scenario states parallel.expert_overlap, `interleaved` has the same
  /// lists and is tried instead.
  bool hides_exchange() {
    const bool is_same =
        request_.base.shape.expert_overlap &&
        std::ranges::any_of(schedules_, [](const ScheduleInfo* s) { return s->name == "interleaved"; });
    if (now_.expert > 1 && !is_same) return true;
    keep_fault(
        Step::sharded,
        "ep-1f1b hides the exchange of experts, and no devices share experts; allow parallel.expert of "
        "at least 2, or another --schedule");
    return false;
  }

  /// Adds a pipeline of one stage. All schedules without pairs and all layer splits run one microbatch
  /// after another. So it is added once, as 1f1b. It is added a second time in pairs if `schedule` has
  /// pairs. Takes the first layer split that is valid for one stage.
  void add_single_stage(std::string_view schedule) {
    now_.schedule = schedule;
    now_.virtual_stages = 1;
    if (!allows(choices_.virtual_stages, 1)) return;
    reach(Step::scheduled);
    for (std::size_t i = 0; i < request_.layer_splits.size(); ++i) {
      if (!is_cut(i, 1)) continue;
      now_.layer_split = i;
      found_.push_back(now_);
      return;
    }
  }

  /// Returns the values of v (stages on each rank) to try. For an interleaved schedule, v = 1 is left out,
  /// because it equals another schedule.
  std::vector<std::int32_t> chunks_of_schedule(const ScheduleInfo& schedule) const {
    if (schedule.chunks > 0) return {schedule.chunks};
    if (!takes_chunks(schedule)) return {1};
    std::vector<std::int32_t> chunks;
    const auto most = static_cast<std::int64_t>(work_.model.layers.size()) + 2;
    for (std::int32_t v = 2; std::int64_t{v} * now_.stages <= most; ++v) chunks.push_back(v);
    return chunks;
  }

  /// Returns true if the schedule accepts the numbers of stages, chunks and microbatches. The result is
  /// cached.
  bool is_taken(const ScheduleInfo& schedule) {
    const auto key = std::tuple(schedule.name, now_.stages, now_.virtual_stages, now_.microbatches);
    const auto [known, fresh] = taken_.try_emplace(key, false);
    if (fresh) {
      Shape shape = request_.base.shape;
      shape.stages = now_.stages;
      shape.virtual_stages = schedule.chunks > 0 ? 1 : now_.virtual_stages;
      shape.microbatches = now_.microbatches;
      shape.iterations = 1;  // as in scenario_of()
      const auto taken = check_shape(schedule.name, shape);
      known->second = taken.has_value();
      if (!taken) keep_fault(Step::sharded, taken.error());
    }
    return known->second;
  }

  void add_layouts() {
    const std::int32_t stages = now_.stages * now_.virtual_stages;
    reach(Step::scheduled);
    for (std::size_t i = 0; i < request_.layer_splits.size(); ++i) {
      now_.layer_split = i;
      if (is_looked_at(request_.layer_splits[i]) && is_cut(i, stages)) found_.push_back(now_);
    }
  }

  /// Returns true if the search tries the layer split with the present v (stages on each rank). A balanced
  /// split exists for every v. If the user has not chosen v, it is tried only with powers of two, because
  /// neighbouring values hardly differ.
  bool is_looked_at(const LayerSplit& split) const {
    if (split.rule != LayerSplit::Rule::balanced || !choices_.virtual_stages.empty()) return true;
    return std::has_single_bit(static_cast<std::uint32_t>(now_.virtual_stages));
  }

  /// Returns true if the layer split can divide the model's layers into this number of stages.
  bool is_cut(std::size_t split, std::int32_t stages) {
    const auto [known, fresh] = cuts_.try_emplace({split, stages}, false);
    if (fresh) {
      const auto layers = static_cast<std::int64_t>(work_.model.layers.size());
      const LayerSplit& rule = request_.layer_splits[split];
      known->second = rule_in_force(rule, layers, stages) == LayerSplit::Rule::balanced
                          ? has_layers_for(layers, stages)
                          : split_layers(rule, layers, stages).has_value();
    }
    if (known->second) {
      reach(Step::cut);
    } else {
      uncut_.insert(stages);
    }
    return known->second;
  }

  const TuneRequest& request_;
  const TuneChoices& choices_;
  Workload work_;  // after is_priced(), it has the choices of now_
  std::vector<const ScheduleInfo*> schedules_;
  std::int64_t devices_ = 1;
  Configuration now_;
  std::map<std::tuple<std::string_view, std::int32_t, std::int32_t, std::int32_t>, bool> taken_;
  std::map<std::pair<std::size_t, std::int32_t>, bool> cuts_;
  std::vector<Configuration> found_;
  Step farthest_ = Step::begun;
  Step faulty_ = Step::begun;  // step at which fault_ was stored
  std::string fault_;
  std::set<std::int32_t> uncut_;  // numbers of stages into which a layer split could not divide the layers
};

tl::expected<std::vector<const ScheduleInfo*>, std::string> schedules_of(const TuneRequest& request) {
  std::vector<const ScheduleInfo*> schedules;
  for (const std::string& name : request.schedules) {
    const ScheduleInfo* schedule = find_schedule(name);
    if (schedule == nullptr) return tl::unexpected(fmt::format("schedule: unknown schedule \"{}\"", name));
    if (!is_tunable(*schedule)) {
      return tl::unexpected(
          fmt::format("schedule: {} is not tuned: expected schedules that train synchronously, with one copy "
                      "of the weights in a pipeline, such as 1f1b or zb-v",
                      schedule->name));
    }
    if (std::ranges::find(schedules, schedule) == schedules.end()) schedules.push_back(schedule);
  }
  return schedules;
}

/// Removes the configurations that the launcher cannot run. Returns, for each reason, the number of
/// configurations that were removed.
std::map<std::string, std::size_t> keep_launchable(std::vector<Configuration>& space, Launcher launcher,
                                                   const TuneRequest& request) {
  std::map<std::string, std::size_t> taken;
  Workload work = model_of(request).work;
  work.parallel.gather = request.base.shape.gather;
  std::erase_if(space, [&](const Configuration& of) {
    set_choices(work, of);
    const std::string reason = beyond_launcher(launcher, {.request = request, .of = of, .work = work});
    if (!reason.empty()) ++taken[reason];
    return !reason.empty();
  });
  return taken;
}

/// Returns the message for a space of which the launcher can run no configuration. It lists the reasons,
/// and the most frequent one is first.
std::string nothing_launchable(Launcher launcher, const std::map<std::string, std::size_t>& taken) {
  std::vector<std::pair<std::size_t, std::string_view>> reasons;
  reasons.reserve(taken.size());
  for (const auto& [reason, count] : taken) reasons.emplace_back(count, reason);
  std::ranges::stable_sort(reasons, std::ranges::greater{}, &std::pair<std::size_t, std::string_view>::first);
  std::string message = fmt::format(
      "tune: no configuration is left that {} runs as it is priced ({}); allow others:", to_text(launcher),
      release_of(launcher));
  for (const auto& [count, reason] : reasons)
    message += fmt::format("\n  {} configurations: {}", count, reason);
  return message;
}

}  // namespace

tl::expected<std::vector<Configuration>, std::string> tuning_space(const TuneRequest& request) {
  if (!std::holds_alternative<DeviceModel>(request.base.model)) {
    return tl::unexpected(
        std::string("tune: expected a model on named devices: model.huggingface, model.sequence and "
                    "cluster.device, or --model, --sequence and --device"));
  }
  if (!std::get<DeviceModel>(request.base.model).kinds.empty()) {
    return tl::unexpected(
        std::string("tune: expected devices of one kind (cluster.device), because configurations are "
                    "compared on equal devices; "
                    "`sweep` takes cluster.groups"));
  }
  if (!std::get<DeviceModel>(request.base.model).sequences.empty()) {
    return tl::unexpected(
        std::string("tune: expected one sequence for all microbatches, because "
                    "the number of microbatches is one "
                    "of the choices; state a single number"));
  }
  auto schedules = schedules_of(request);
  if (!schedules) return tl::unexpected(schedules.error());
  Space space(request, *std::move(schedules));
  auto all = space.all();
  if (!all.empty() && request.launcher) {
    const auto taken = keep_launchable(all, *request.launcher, request);
    if (all.empty()) return tl::unexpected(nothing_launchable(*request.launcher, taken));
  }
  if (!all.empty()) return all;
  const DeviceCluster& cluster = *request.base.cluster.named;
  return tl::unexpected(
      fmt::format("tune: no configuration is left on {} devices ({} x {} {}): {}; allow more choices",
                  cluster.device_count(), cluster.nodes, cluster.type.devices_per_node, cluster.type.name,
                  space.what_ended_all()));
}

}  // namespace penstock

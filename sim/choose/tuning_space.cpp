// Builds the space of configurations by nested loops over all choices. Each rule is checked in the
// outermost loop in which this is possible:
//
//     nodes or order of groups > tensor > context, exchange > stages > data (what is left) > expert >
//     microbatch > recomputation, sharding > schedule > v > offload > layout
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
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/launchers.hpp"

namespace penstock {

namespace {

constexpr std::int32_t kMostMicrobatchSamples = 16;
/// Returns the degrees of recomputation that are tried: none, selective and full, and the one that the
/// scenario states. With fused attention, `selective` has nothing to recompute, so it is tried only if the
/// user names it. If the scenario recomputes a part of the layers, `full` means this part.
std::vector<LayerRecompute> recomputes_of(const TuneRequest& request) {
  std::vector<LayerRecompute> tried = {LayerRecompute::none, LayerRecompute::selective, LayerRecompute::full};
  const LayerRecompute stated = model_of(request).work.recompute;
  if (std::ranges::find(tried, stated) == tried.end()) tried.push_back(stated);
  return tried;
}

constexpr std::array kExchanges = {ContextExchange::ring, ContextExchange::all_to_all};
constexpr std::array kOrders = {PlacementOrder::tp_cp_ep_dp_pp, PlacementOrder::tp_cp_ep_pp_dp};
/// The schedule in which the exchange of experts runs beside the computation of another microbatch.
constexpr std::string_view kExpertPairs = "ep-1f1b";
/// The degrees of ZeRO sharding that can be predicted.
constexpr std::array kShardings = {0, 1, 2, 3};

/// The percentages of offloaded activations that are tried if the connection to hosts is stated.
constexpr std::array kOffloads = {0, 50, 100};

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
/// previous minibatch, and an encoder is a model of its own.
bool is_tunable(const ScheduleInfo& schedule) {
  constexpr std::array<std::string_view, 5> kOthers = {"data-parallel", "dualpipe", "chimera", "gems",
                                                       "pipedream-2bw"};
  return !schedule.asynchronous && extra_stages_of(schedule.name) != ExtraStages::encoder &&
         std::ranges::find(kOthers, schedule.name) == kOthers.end();
}

/// The nested loops of Space, the outermost first. Each is named after the rule that a configuration
/// satisfies when it reaches the loop. Rules of inner loops may still exclude the configuration.
enum class Step : std::uint8_t { begun, filled, priced, batched, sharded, scheduled, cut };

/// The nested loops over all choices; the comment at the top of this file lists them. `now_` has the values
/// that the outer loops have chosen.
class Space {
 public:
  Space(const TuneRequest& request, std::vector<const ScheduleInfo*> schedules)
      : request_(request),
        choices_(request.choices),
        work_(model_of(request).work),
        recomputes_(recomputes_of(request)),
        schedules_(std::move(schedules)) {}

  std::vector<Configuration> all() {
    if (!model_of(request_).kinds.empty()) {
      add_groups();
      std::ranges::sort(found_);
      return std::move(found_);
    }
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

  /// Returns the reason why the space is empty. It is the rule that excluded the configurations at the
  /// innermost loop that any configuration has reached.
  std::string what_ended_all() const {
    switch (farthest_) {
      case Step::begun:
        return fmt::format(
            "expected tensor x context x stages x data that make {} devices (tensor at most {}, experts in "
            "equal "
            "parts)",
            devices_, least_domain());
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
  /// Adds the configurations on several groups of devices. All use all nodes of all groups.
  void add_groups() {
    now_.nodes = 0;
    for (const DeviceCluster& group : request_.base.cluster.groups) now_.nodes += group.nodes;
    devices_ = model_of(request_).devices;
    for (const GroupOrder order : {GroupOrder::stated, GroupOrder::reversed}) {
      if (!allows(choices_.group_order, order)) continue;
      const bool is_same = kinds_in_order(request_, GroupOrder::stated) == kinds_in_order(request_, order);
      if (order != GroupOrder::stated && is_same && allows(choices_.group_order, GroupOrder::stated))
        continue;
      now_.group_order = order;
      add_degrees();
    }
  }

  void add_degrees() {
    for (const std::int32_t tensor : divisors(devices_)) {
      if (!allows(choices_.tensor, tensor) || tensor > least_domain()) continue;
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

  /// Returns the number of devices in the smallest NVLink domain of the request's devices.
  std::int32_t least_domain() const {
    std::int32_t least = work_.device.nvlink_devices;
    for (const DeviceKind& kind : model_of(request_).kinds) least = std::min(least, kind.type.nvlink_devices);
    return least;
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
    // Other orders would put the copies of a stage on devices of several kinds.
    if (!work_.later_devices.empty()) return add_batches();
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
    auto fault = choose_devices(work_, request_, now_);
    if (!fault) fault = fault_of(work_);
    for (const RankDevices& later : work_.later_devices) {
      if (!fault) fault = fault_of(on_devices_of_rank(work_, later.first_rank));
    }
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
      for (const LayerRecompute recompute : recomputes_) {
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
      if (divides_output(extra_stages_of(schedule->name)) && !has_one_output()) continue;
      for (const std::int32_t chunks : chunks_of_schedule(*schedule)) {
        if (!allows(choices_.virtual_stages, chunks)) continue;
        now_.virtual_stages = chunks;
        add_offloads(*schedule);
      }
    }
    now_.offload = 0;
  }

  void add_offloads(const ScheduleInfo& schedule) {
    const bool is_offered = takes_option(schedule, "offload") && may_offload(request_);
    for (const std::int32_t offload : kOffloads) {
      if (!allows(choices_.offload, offload) || (offload > 0 && !is_offered)) continue;
      now_.offload = offload;
      if (is_taken(schedule)) add_layouts();
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

  /// Returns true if the model has a single output layer. Multi-token prediction has further ones, which no
  /// schedule divides.
  bool has_one_output() {
    if (work_.model.multi_token == 0) return true;
    keep_fault(Step::sharded,
               "1f1b-vocab-1 and 1f1b-vocab-2 divide one output layer, and layers of multi-token prediction "
               "have further ones; set model.multi_token to 0, or allow another --schedule");
    return false;
  }

  /// Adds a pipeline of one stage. With a single stage, all schedules without pairs are equal: they run one
  /// microbatch after another. So the caller adds it once as 1f1b, and once with a schedule of pairs. All
  /// layer splits are also equal, so the first valid one is used.
  void add_single_stage(std::string_view schedule) {
    now_.schedule = schedule;
    now_.virtual_stages = 1;
    // A single stage runs the backward pass of each microbatch directly after its forward pass.
    if (!allows(choices_.virtual_stages, 1) || !allows(choices_.offload, 0)) return;
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

  /// Returns true if the schedule accepts the present numbers of stages, chunks and microbatches. The result
  /// is cached.
  bool is_taken(const ScheduleInfo& schedule) {
    const auto key =
        std::tuple(schedule.name, now_.stages, now_.virtual_stages, now_.microbatches, now_.offload);
    const auto [known, fresh] = taken_.try_emplace(key, false);
    if (fresh) {
      Shape shape = request_.base.shape;
      shape.stages = now_.stages;
      shape.virtual_stages = schedule.chunks > 0 ? 1 : now_.virtual_stages;
      shape.microbatches = now_.microbatches;
      shape.iterations = 1;  // as in scenario_of()
      shape.offload.clear();
      if (now_.offload > 0) shape.offload = {static_cast<double>(now_.offload) / 100};
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
      if (!is_looked_at(request_.layer_splits[i])) continue;
      const bool has_head = !divides_output(extra_stages_of(now_.schedule));
      if (has_head ? is_cut(i, stages) : is_cut_without_head(i, stages)) found_.push_back(now_);
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

  /// Returns true if the layer split can divide the layers into stages without an output layer. Each of them
  /// needs a layer.
  bool is_cut_without_head(std::size_t split, std::int32_t stages) {
    if (static_cast<std::int64_t>(work_.model.layers.size()) >= stages) return is_cut(split, stages);
    uncut_.insert(stages);
    return false;
  }

  const TuneRequest& request_;
  const TuneChoices& choices_;
  Workload work_;  // workload; after is_priced(), it has the choices of now_
  std::vector<LayerRecompute> recomputes_;
  std::vector<const ScheduleInfo*> schedules_;
  std::int64_t devices_ = 1;
  Configuration now_;
  std::map<std::tuple<std::string_view, std::int32_t, std::int32_t, std::int32_t, std::int32_t>, bool> taken_;
  std::map<std::pair<std::size_t, std::int32_t>, bool> cuts_;
  std::vector<Configuration> found_;
  Step farthest_ = Step::begun;
  Step faulty_ = Step::begun;  // loop in which fault_ was stored
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
    choose_devices(work, request, of);
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

/// Returns true if the request allows the usual order of parallelisms.
bool takes_usual_order(const TuneRequest& request) {
  const PlacementOrder usual = Parallel{}.order;
  const bool is_stated = model_of(request).states_order && request.choices.order.empty();
  return is_stated ? model_of(request).work.parallel.order == usual : allows(request.choices.order, usual);
}

/// Returns a text such as "16 devices (2 x 8 h100-sxm)", or one with the devices of each group.
std::string machine_text(const TuneRequest& request) {
  const DeviceModel& model = model_of(request);
  if (!model.kinds.empty())
    return fmt::format("{} devices ({})", model.devices, devices_text(request, model.devices));
  const DeviceCluster& cluster = *request.base.cluster.named;
  return fmt::format("{} devices ({} x {} {})", cluster.device_count(), cluster.nodes,
                     cluster.type.devices_per_node, cluster.type.name);
}

}  // namespace

tl::expected<std::vector<Configuration>, std::string> tuning_space(const TuneRequest& request) {
  if (!std::holds_alternative<DeviceModel>(request.base.model)) {
    return tl::unexpected(
        std::string("tune: expected a model on named devices: model.huggingface, model.sequence and "
                    "cluster.device, or --model, --sequence and --device"));
  }
  if (!model_of(request).kinds.empty() && !request.nodes.empty()) {
    return tl::unexpected(
        std::string("tune: expected no number of nodes, because cluster.groups states those of each group; "
                    "leave --max-nodes out, or change the nodes of a group"));
  }
  if (!model_of(request).kinds.empty() && !takes_usual_order(request)) {
    return tl::unexpected(std::string(
        "tune: expected the order tp-cp-ep-dp-pp for cluster.groups, so that all copies of a stage "
        "are on devices of one kind; leave --order and parallel.order out"));
  }
  const auto offloads = [](std::int32_t percentage) { return percentage > 0; };
  if (!may_offload(request) && std::ranges::any_of(request.choices.offload, offloads)) {
    return tl::unexpected(std::string(
        "tune: expected cluster.host with --offload, because copies that take no time would always "
        "be best; state cluster.host.bandwidth, such as 64 GB/s"));
  }
  if (request.base.shape.passes != Passes::both ||
      std::ranges::any_of(request.schedules, is_chunked_prefill)) {
    return tl::unexpected(
        std::string("tune: expected training with backward passes, got forward passes alone "
                    "(schedule.forward_only or chunked-prefill), which have no recomputation, gradients or "
                    "optimizer to choose; compare their configurations by `penstock sweep --vary "
                    "parallel.tensor=1,2,4`"));
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
  return tl::unexpected(fmt::format("tune: no configuration is left on {}: {}; allow more choices",
                                    machine_text(request), space.what_ended_all()));
}

}  // namespace penstock

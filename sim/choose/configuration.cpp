// Sets the choices of a configuration in a copy of the request's scenario. The search computes figures for
// this scenario, so they equal those of `simulate`. Tests: tests/sim/tuning_test.cpp.

#include "sim/choose/configuration.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/cut.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

namespace {

/// The largest number of actions that one search for an order may place, summed over its passes. A pass of
/// the search places each action of the program once. Placing so many actions takes about 0.15 s.
constexpr std::int64_t kSearchedActions = 5'000'000;
/// The smallest number of passes for which an order is searched. A search with fewer passes would only try
/// the rules of a table, because its first eight searches need four passes each
/// (schedules/search/synthesis.cpp). For such a long order, the fixed pattern of the schedule is used
/// instead. Its gaps are filled according to the costs.
constexpr std::int64_t kLeastPasses = 32;

/// Returns the number of passes of the search for a schedule's order of actions. Longer orders get fewer
/// passes. Returns 0 if the order is too long to be searched. Returns nothing for schedules that do not
/// search for an order.
std::optional<std::int64_t> passes_of(const Configuration& of) {
  const ScheduleInfo* schedule = find_schedule(of.schedule);
  if (!takes_option(*schedule, "effort")) return std::nullopt;
  // Each stage has one F, I and W for each microbatch.
  const std::int64_t actions = std::int64_t{3} * of.stages * of.virtual_stages * of.microbatches;
  const std::int64_t passes = kSearchedActions / actions;
  return passes < kLeastPasses ? 0 : std::min(passes, SearchEffort::kDefaultPasses);
}

}  // namespace

std::vector<std::string> default_tuned_schedules() {
  return {"1f1b", "interleaved", "zb-h1", "zb-v", "ep-1f1b"};
}

std::vector<std::string> default_tuned_schedules(const Architecture& model) {
  // A smaller output layer only replaces a few layers of the last stage, so other schedules are as fast.
  constexpr std::int64_t kLargeOutputLayers = 4;
  std::vector<std::string> schedules = default_tuned_schedules();
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  const std::int64_t output = model.hidden * model.vocabulary;
  const std::int64_t in_layers = active_parameters(model) - (model.tied ? 1 : 2) * output;
  if (model.multi_token == 0 && output * layers >= kLargeOutputLayers * in_layers) {
    schedules.emplace_back("1f1b-vocab-1");
    schedules.emplace_back("1f1b-vocab-2");
  }
  return schedules;
}

std::vector<LayerSplit> default_layer_splits() {
  return {{.rule = LayerSplit::Rule::even},
          {.rule = LayerSplit::Rule::ends_one_less},
          {.rule = LayerSplit::Rule::balanced}};
}

const DeviceModel& model_of(const TuneRequest& request) { return std::get<DeviceModel>(request.base.model); }

TuneRequest with_layers(TuneRequest request, const Configuration& configuration,
                        const std::vector<std::int64_t>& layers) {
  LayerSplit& split = request.layer_splits[configuration.layer_split];
  if (split.rule == LayerSplit::Rule::balanced) split = {.rule = LayerSplit::Rule::listed, .counts = layers};
  return request;
}

std::int64_t device_count(const Configuration& configuration) {
  return std::int64_t{configuration.tensor} * configuration.context * configuration.data *
         configuration.stages;
}

namespace {

/// Returns the degree of sharding that the `schedule:` part must state, or nothing. Degrees 0 and 1 follow
/// from parallel.distributed_optimizer. They are stated only if the base scenario states another degree.
std::optional<std::int32_t> stated_sharding(const TuneRequest& request, const Configuration& configuration) {
  if (configuration.sharding > 1 || request.base.shape.sharding) return configuration.sharding;
  return std::nullopt;
}

}  // namespace

void set_choices(Workload& work, const Configuration& configuration) {
  Parallel& parallel = work.parallel;
  parallel.tensor = configuration.tensor;
  parallel.context = configuration.context;
  parallel.context_exchange = configuration.context_exchange;
  parallel.expert = configuration.expert;
  parallel.data = configuration.data;
  parallel.order = configuration.order;
  parallel.sharding = configuration.sharding;
  work.ranks = configuration.stages;
  work.micro_batch_size = configuration.micro_batch_size;
  work.recompute = configuration.recompute;
}

std::vector<DeviceKind> kinds_in_order(const TuneRequest& request, GroupOrder order) {
  std::vector<DeviceKind> kinds = model_of(request).kinds;
  if (request.base.cluster.group_order != order) std::ranges::reverse(kinds);
  return kinds;
}

std::optional<std::string> choose_devices(Workload& work, const TuneRequest& request,
                                          const Configuration& configuration) {
  return place_kinds(work, kinds_in_order(request, configuration.group_order));
}

Bytes usable_of(const TuneRequest& request) {
  const DeviceModel& model = model_of(request);
  std::optional<Bytes> largest = model.work.device.usable_memory();
  for (const DeviceKind& kind : model.kinds) largest = std::max(largest, kind.type.usable_memory());
  return largest.value_or(std::numeric_limits<Bytes>::max());
}

Bytes smaller_by(const DeviceType& device, Bytes largest) {
  constexpr Bytes kNoLimit = -(Bytes{1} << 61);
  if (const auto usable = device.usable_memory()) return largest - *usable;
  return largest == std::numeric_limits<Bytes>::max() ? 0 : kNoLimit;
}

bool may_offload(const TuneRequest& request) { return request.base.host != HostLink{}; }

std::string offload_text(std::int32_t percentage) {
  return percentage == 0 ? "none" : fmt::format("{}", static_cast<double>(percentage) / 100);
}

std::string devices_text(const TuneRequest& request, std::int64_t devices) {
  const DeviceModel& model = model_of(request);
  if (model.kinds.empty()) return fmt::format("{} x {}", devices, model.work.device.name);
  std::vector<std::string> names;
  names.reserve(model.kinds.size());
  for (const DeviceKind& kind : model.kinds)
    names.push_back(fmt::format("{} x {}", kind.devices, kind.type.name));
  return fmt::format("{}", fmt::join(names, " + "));
}

Scenario scenario_of(const TuneRequest& request, const Configuration& configuration) {
  Scenario scenario = request.base;
  auto& model = std::get<DeviceModel>(scenario.model);
  if (!model.kinds.empty()) {
    model.kinds = kinds_in_order(request, configuration.group_order);
    model.work.device = model.kinds.front().type;
    model.kernels = model.kinds.front().kernels;
    scenario.cluster = with_group_order(std::move(scenario.cluster), configuration.group_order);
  }
  set_choices(model.work, configuration);
  model.distributed_optimizer = configuration.sharding > 0;
  // The schedule section states sharding 2 and 3.
  model.work.parallel.sharding = std::min(configuration.sharding, 1);
  model.split = request.layer_splits[configuration.layer_split];
  model.copies = configuration.data;
  model.devices = device_count(configuration);
  scenario.schedule = std::string(configuration.schedule);
  scenario.program.reset();       // a program file of the base would replace the schedule
  scenario.shape.iterations = 1;  // one step is enough, because all iterations take the same time
  scenario.shape.stages = configuration.stages;
  scenario.shape.sharding = stated_sharding(request, configuration);
  scenario.shape.offload.clear();
  if (configuration.offload > 0) scenario.shape.offload = {static_cast<double>(configuration.offload) / 100};
  // If the schedule's rule fixes the number of chunks v, the schedule refuses the option virtual_stages. The
  // option is then set to 1.
  const ScheduleInfo* schedule = find_schedule(configuration.schedule);
  scenario.shape.virtual_stages = schedule->chunks > 0 ? 1 : configuration.virtual_stages;
  scenario.states_chunks = true;
  if (const auto passes = passes_of(configuration)) scenario.shape.effort.passes = *passes;
  scenario.batch = Batch{.micro_batch_size = configuration.micro_batch_size,
                         .global_batch_size = request.global_batch_size,
                         .microbatches = {}};
  return scenario;
}

std::string recompute_text(const TuneRequest& request, LayerRecompute recompute) {
  if (recompute != LayerRecompute::full) return to_text(recompute);
  const RecomputedLayers& layers = model_of(request).work.recomputed_layers;
  switch (layers.method) {
    case RecomputedLayers::Method::all:
      break;
    case RecomputedLayers::Method::block:
      return fmt::format("{{full: {}}}", layers.count);
    case RecomputedLayers::Method::uniform:
      return fmt::format("{{uniform: {}}}", layers.count);
    case RecomputedLayers::Method::listed:
      return fmt::format("{{full: [{}]}}", fmt::join(layers.layers, ", "));
  }
  return to_text(recompute);
}

std::vector<Override> overrides_of(const TuneRequest& request, const Configuration& configuration) {
  const ScheduleInfo* schedule = find_schedule(configuration.schedule);
  const std::int32_t chunks = schedule->chunks > 0 ? 1 : configuration.virtual_stages;
  const auto number = [](std::string key, std::int64_t value) {
    return Override{.key = std::move(key), .value = fmt::to_string(value)};
  };
  const auto word = [](std::string key, std::string_view value) {
    return Override{.key = std::move(key), .value = fmt::format("{}", value)};
  };
  std::vector<Override> overrides = {
      number("parallel.tensor", configuration.tensor),
      number("parallel.context", configuration.context),
      word("parallel.context_exchange", to_text(configuration.context_exchange)),
      number("parallel.expert", configuration.expert),
      number("parallel.data", configuration.data),
      word("parallel.distributed_optimizer", configuration.sharding > 0 ? "true" : "false"),
      word("schedule.name", configuration.schedule),
      number("schedule.stages", configuration.stages),
      word("schedule.layer_split", to_text(request.layer_splits[configuration.layer_split])),
      number("training.micro_batch_size", configuration.micro_batch_size),
      number("training.global_batch_size", request.global_batch_size),
      word("training.recompute", recompute_text(request, configuration.recompute))};
  const ClusterSpec& cluster = request.base.cluster;
  if (model_of(request).kinds.empty()) {
    overrides.push_back(
        number(cluster.groups.empty() ? "cluster.nodes" : "cluster.groups.0.nodes", configuration.nodes));
  } else if (configuration.group_order != GroupOrder::stated || cluster.group_order != GroupOrder::stated) {
    overrides.push_back(word("cluster.group_order", to_text(configuration.group_order)));
  }
  if (takes_chunks(*schedule) || request.base.shape.virtual_stages > 1)
    overrides.push_back(number("schedule.virtual_stages", chunks));
  if (const auto passes = passes_of(configuration)) overrides.push_back(number("schedule.passes", *passes));
  if (model_of(request).states_order || configuration.order != Parallel{}.order)
    overrides.push_back(word("parallel.order", to_text(configuration.order)));
  if (const auto sharding = stated_sharding(request, configuration))
    overrides.push_back(number("schedule.sharding", *sharding));
  if (configuration.offload > 0 || !request.base.shape.offload.empty())
    overrides.push_back(word("schedule.offload", offload_text(configuration.offload)));
  if (request.base.shape.iterations > 1) overrides.push_back(number("training.iterations", 1));
  // The two batch sizes determine M, and a different M of the base would contradict them.
  if (request.base.batch.microbatches)
    overrides.push_back(number("schedule.microbatches", configuration.microbatches));
  return overrides;
}

// The search stores the best configuration for each value of each choice. All values of all choices have
// different numbers, so a configuration with fifteen choices has fifteen numbers:
//
//     tensor 8 -> 0, context 1 -> 1, .. offload 0 -> 14;  the next one: tensor 4 -> 15, context 1 -> 1, ..

ChoiceTexts choice_texts(const TuneRequest& request, const Configuration& of) {
  return {fmt::to_string(of.tensor),
          fmt::to_string(of.context),
          of.context == 1 ? "none" : std::string(to_text(of.context_exchange)),
          fmt::to_string(of.expert),
          fmt::to_string(of.data),
          std::string(to_text(of.order)),
          std::string(to_text(of.group_order)),
          fmt::to_string(of.stages),
          fmt::to_string(of.virtual_stages),
          std::string(of.schedule),
          to_text(request.layer_splits[of.layer_split]),
          fmt::to_string(of.micro_batch_size),
          recompute_text(request, of.recompute),
          fmt::to_string(of.sharding),
          offload_text(of.offload)};
}

namespace {

/// Returns a number that identifies the set of recomputed parts. Different sets have different numbers.
std::int64_t recompute_code(LayerRecompute recompute) {
  std::int64_t code = 0;
  for (const auto& [part, word] : kEnumWords<RecomputedPart>) code = 2 * code + (recompute.has(part) ? 1 : 0);
  return code;
}

}  // namespace

// The search compares values as numbers, which is faster than as text. Texts are made only for printed
// configurations.
ChoiceCodes choice_codes(const Configuration& of) {
  return {of.tensor,
          of.context,
          of.context == 1 ? 0 : 1 + static_cast<std::int64_t>(of.context_exchange),
          of.expert,
          of.data,
          static_cast<std::int64_t>(of.order),
          static_cast<std::int64_t>(of.group_order),
          of.stages,
          of.virtual_stages,
          std::distance(schedule_table().data(), find_schedule(of.schedule)),
          static_cast<std::int64_t>(of.layer_split),
          of.micro_batch_size,
          recompute_code(of.recompute),
          of.sharding,
          of.offload};
}

ValueNumbers::Numbers ValueNumbers::of(const Configuration& configuration) {
  const ChoiceCodes codes = choice_codes(configuration);
  Numbers numbers{};
  for (std::size_t choice = 0; choice < codes.size(); ++choice) {
    const auto [entry, fresh] = known_[choice].try_emplace(codes[choice], static_cast<std::uint16_t>(count_));
    if (fresh) ++count_;
    numbers[choice] = entry->second;
  }
  return numbers;
}

}  // namespace penstock

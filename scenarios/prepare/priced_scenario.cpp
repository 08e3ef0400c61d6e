// Computes the costs of a model's stages if the scenario does not state them. The placed program
// determines the number of stages and their ranks. The costs are written into the scenario as if a user
// had stated them. Models with stated costs are not changed.

#include "scenarios/prepare/priced_scenario.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/cut.hpp"
#include "scenarios/prepare/prepared_program.hpp"
#include "scenarios/prepare/schedule_outline.hpp"
#include "scenarios/pricing/chain_costs.hpp"
#include "scenarios/pricing/iteration_costs.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/return_if_error.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "schedules/rules/generators.hpp"
#include "topology/presets.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

/// Returns an error if the model cannot describe the extra stages of the program: parts of the output layer,
/// or an encoder.
tl::expected<void, std::string> check_extra_stages(const Model& model, const Program& placed) {
  const ExtraStages extra = extra_stages_of(placed);
  const bool is_fitted = std::holds_alternative<FittedModel>(model);
  if (divides_output(extra) && (is_fitted || std::holds_alternative<LayerGraph>(model))) {
    return tl::unexpected(fmt::format(
        "schedule: {} divides the output layer over the ranks, and {} do not say which part that is; take a "
        "transformer on a device, or model.stages with {} entries (stages of layers, slices, the loss)",
        placed.schedule, is_fitted ? "fitted costs" : "layers", placed.stage_count()));
  }
  if (extra == ExtraStages::encoder && (is_fitted || std::holds_alternative<DeviceModel>(model))) {
    return tl::unexpected(
        fmt::format("schedule: {} runs an encoder, and the model has none; take model.stages with {} entries "
                    "(the encoder, stages of layers), or model.layers",
                    placed.schedule, placed.stage_count()));
  }
  return {};
}

}  // namespace

tl::expected<SettledScenario, std::string> settle(OneCopy copy, const ScheduleInForce& in_force,
                                                  const Program& placed) {
  PENSTOCK_RETURN_IF_ERROR(check_extra_stages(copy.scenario.model, placed));
  if (copy.work) {
    return device_prices(std::move(copy), in_force, placed).map([](DevicePrices&& prices) {
      return std::move(prices.settled);
    });
  }
  if (std::holds_alternative<FittedModel>(copy.scenario.model))
    return fitted_prices(std::move(copy), in_force, placed);
  return SettledScenario{.scenario = std::move(copy.scenario)};
}

// For a model on named devices, the costs of one copy of the pipeline are computed:
//
//   degrees of parallelism, program -> layers of each stage -> prices -> costs, links, notes
//
// The exchanges between copies are not messages of the program. The part of their time that does not overlap
// with computation belongs to STEP. STEP takes equally long on all ranks, because an update waits for the
// gradient norm over all ranks.

// --- device figures --------------------------------------------------------------------------------------

namespace {

template <typename Value>
PerStage<Value> figures_by_stage(const CostTable& costs, Value StageCost::* figure) {
  PerStage<Value> figures{.values = {}, .is_list = true, .place = "model"};
  for (const StageCost& cost : costs.stages) figures.values.push_back(cost.*figure);
  return figures;
}

}  // namespace

StageFigures figures_of_stages(const CostTable& costs, Ns overhead_ns) {
  StageFigures figures;
  figures.forward = figures_by_stage(costs, &StageCost::forward_ns);
  figures.backward_input = figures_by_stage(costs, &StageCost::backward_input_ns);
  figures.backward_weight = figures_by_stage(costs, &StageCost::backward_weight_ns);
  if (overhead_ns > 0) {
    // The stage of the loss in a divided output layer takes no time. It then has no overhead, and the other
    // stages have `overhead_ns`.
    const bool is_list = std::ranges::min(figures.forward.values) < overhead_ns;
    figures.overhead = {.values = {overhead_ns}, .is_list = is_list, .place = "model"};
    if (is_list) {
      figures.overhead.values.clear();
      for (const Ns time : figures.forward.values)
        figures.overhead.values.push_back(std::min(time, overhead_ns));
    }
  }
  for (PerStage<Ns>* times : {&figures.forward, &figures.backward_input, &figures.backward_weight}) {
    for (std::size_t stage = 0; stage < times->values.size(); ++stage)
      times->values[stage] -= figures.overhead.of(static_cast<std::int32_t>(stage), 0);
  }
  figures.pair_hidden = figures_by_stage(costs, &StageCost::pair_hidden_ns);
  figures.step = figures_by_stage(costs, &StageCost::step_ns);
  figures.kept = figures_by_stage(costs, &StageCost::kept);
  figures.released_by_input = figures_by_stage(costs, &StageCost::released_by_input);
  figures.recomputed = figures_by_stage(costs, &StageCost::recomputed);
  figures.recomputed_at_once = figures_by_stage(costs, &StageCost::recomputed_at_once);
  figures.weights = figures_by_stage(costs, &StageCost::weights);
  figures.gradients = figures_by_stage(costs, &StageCost::gradients);
  figures.optimizer_state = figures_by_stage(costs, &StageCost::optimizer_state);
  figures.transient = figures_by_stage(costs, &StageCost::transient);
  figures.activation = {.values = {}, .is_list = true, .place = "model"};
  for (const EdgeCost& edge : costs.edges) figures.activation.values.push_back(edge.activation);
  figures.activation.values.push_back(0);  // the last stage sends nothing
  // Edge i leads from stage i to the next stage. If all gradients are as large as their activations, the
  // figures state no gradients, because this is the default.
  const auto is_as_large = [](const EdgeCost& edge) { return edge.gradient == edge.activation; };
  if (std::ranges::all_of(costs.edges, is_as_large)) return figures;
  figures.gradient = {.values = {}, .is_list = true, .place = "model"};
  for (const EdgeCost& edge : costs.edges) figures.gradient.values.push_back(edge.gradient);
  figures.gradient.values.push_back(0);
  return figures;
}

// --- device notes ----------------------------------------------------------------------------------------
//
// The notes name all assumptions behind the computed costs, so that the user can judge these costs.

namespace {

std::string_view on_or_off(bool flag) { return flag ? "on" : "off"; }

/// Returns the devices as text: their numbers and names, such as "64 x h100-sxm" or "16 x h100-sxm + 32 x
/// a100-sxm".
std::string device_names(const Workload& work) {
  const std::int64_t of_rank = device_count(work.parallel, 1);
  std::string text;
  std::int32_t first = 0;
  const DeviceType* device = &work.device;
  const auto add = [&](std::int32_t end) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : " + ", of_rank * (end - first), device->name);
  };
  for (const RankDevices& later : work.later_devices) {
    add(later.first_rank);
    first = later.first_rank;
    device = &later.device;
  }
  add(work.ranks);
  return text;
}

/// Returns the rule by which the layers are divided. If the user states none and the devices are unlike,
/// the rule is `balanced`.
LayerSplit::Rule rule_of(const LayerSplit& split, const Workload& work, std::int32_t stages) {
  if (split.rule == LayerSplit::Rule::unstated && !work.later_devices.empty())
    return LayerSplit::Rule::balanced;
  return rule_in_force(split, std::ssize(work.model.layers), stages);
}

/// Returns a note on the degrees of parallelism, and on the kind of link that each group of devices uses.
std::string devices_note(const Workload& work) {
  const Parallel& parallel = work.parallel;
  const auto place = [&](DeviceGroup group) {
    return is_on_nvlink(parallel, work.ranks, group, work.device) ? "NVLink" : "network";
  };
  return fmt::format(
      "{}: tensor {} x context {} ({}) x {} stages x data {}, expert {}, order {}; tensor over {}, "
      "stages over {}, copies over {}; a rank is {} of them, and its figures are those of one",
      device_names(work), parallel.tensor, parallel.context, to_text(parallel.context_exchange), work.ranks,
      parallel.data, parallel.expert, to_text(parallel.order), place(DeviceGroup::tensor),
      place(DeviceGroup::pipeline), place(DeviceGroup::data), parallel.devices_per_rank());
}

/// Returns a note for programs without backward passes. It lists the value of each optional setting that
/// was used.
std::string forward_prices_note(const LayerSplit& split, const Workload& work) {
  const Parallel& parallel = work.parallel;
  return fmt::format(
      "priced for forward passes alone, with sequence {}, precision {}, framework {}, layer_split {}, "
      "sequence_parallel {}, tensor_overlap {}, weights {}, sustained {}, collectives {}, action_overhead "
      "{:.4g} ms; there are no gradients, no optimizer state and no reduction, and {}",
      work.sequence, to_text(work.precision), to_text(work.framework), to_text(split),
      on_or_off(parallel.sequence_parallel), on_or_off(parallel.tensor_overlap),
      parallel.sharding == 3 ? fmt::format("shared among copies (gather {})", to_text(parallel.gather))
                             : "whole on each copy",
      sustained_factor(work), work.device.collectives, work.action_seconds * 1e3,
      work.passes == Passes::forward_kv ? "keys and values of all microbatches are held"
                                        : "no activation is kept");
}

/// Returns a note that lists the value of each optional setting that was used.
std::string prices_note(const LayerSplit& split, const Workload& work) {
  const Parallel& parallel = work.parallel;
  const DeviceType& device = work.device;
  return fmt::format(
      "priced with sequence {}, precision {}, {} bytes a gradient, {} bytes a parameter for the optimizer, "
      "recompute {}{}, framework {}, layer_split {}, sequence_parallel {}, tensor_overlap {}, data_overlap "
      "{}{}, "
      "sharding {}{}, sustained {}, collectives {}, step_fraction {}, action_overhead {:.4g} ms, "
      "step_overhead {:.4g} ms",
      work.sequence, to_text(work.precision), work.gradient_bytes, work.optimizer_bytes,
      to_text(work.recompute), work.recompute == LayerRecompute::full ? to_text(work.recomputed_layers) : "",
      to_text(work.framework), to_text(split), on_or_off(parallel.sequence_parallel),
      on_or_off(parallel.tensor_overlap), on_or_off(parallel.data_overlap),
      parallel.data_overlap ? fmt::format(" (buckets of {})", parallel.bucket_size) : "", parallel.sharding,
      parallel.sharding > 1 ? fmt::format(" (gather {})", to_text(parallel.gather)) : "",
      sustained_factor(work), device.collectives, device.step_fraction, work.action_seconds * 1e3,
      work.step_seconds * 1e3);
}

/// Returns a note on the experts of a model. It states how tokens are exchanged, the factor on the
/// computation and the time in which the host launches a layer, compared with Megatron Bridge's releases. It
/// also states the source of the rates of grouped products. `has_pairs` is true if an exchange runs beside
/// the computation of another microbatch.
std::string experts_note(const Workload& work, bool has_pairs) {
  const Parallel& parallel = work.parallel;
  const bool is_measured = work.device.kernels == "B200" && work.precision == GemmPrecision::bf16;
  const std::string host =
      work.host_layer_seconds > 0
          ? fmt::format("takes {:.4g} ms or more to launch a layer, as without CUDA graphs",
                        work.host_layer_seconds * 1e3)
          : std::string("launches kernels in time, as with CUDA graphs");
  return fmt::format(
      "experts: dispatch {}{}, exchange {} another microbatch; computation takes {:.4g} x its kernels "
      "(training.expert_factor), and the host {} (training.host_layer); with CUDA graphs Megatron Bridge "
      "took 1.2 to 1.5 x in releases 26.02 to 26.04 and 0.9 x from 26.06 on, without them its host took "
      "{:.1f} ms a layer; grouped products have rates of a B200 in bf16{}",
      to_text(parallel.expert_dispatch), parallel.fp8_dispatch ? " in 8 bits" : "",
      has_pairs ? "beside" : "not beside", work.expert_factor, host, kHostLayerSeconds * 1e3,
      is_measured ? "" : ", as the same shares of this device's peak");
}

/// Returns a note on the number of layers of each stage, and on the reason for a balanced split.
std::string layers_note(const LayerSplit& split, const Workload& work, std::span<const std::int64_t> layers) {
  const std::string reason =
      !work.later_devices.empty() ? fmt::format("{} layers are balanced by the prices of each kind of device",
                                                work.model.layers.size())
      : split.rule == LayerSplit::Rule::unstated
          ? fmt::format("{} layers do not divide over {} stages, and are balanced by price",
                        work.model.layers.size(), layers.size())
          : fmt::format("{} layers are balanced by price", work.model.layers.size());
  return fmt::format("{}; by stage: [{}]", reason, fmt::join(layers, ", "));
}

}  // namespace

std::vector<std::string> device_notes(const Workload& work, const LayerSplit& split,
                                      std::span<const std::int64_t> layers, bool has_pairs) {
  const LayerSplit in_force = {.rule = rule_of(split, work, static_cast<std::int32_t>(layers.size())),
                               .counts = split.counts,
                               .predictions = split.predictions};
  std::vector<std::string> notes = {devices_note(work), work.is_forward_only()
                                                            ? forward_prices_note(in_force, work)
                                                            : prices_note(in_force, work)};
  if (!work.device.has_own_kernels) {
    notes.push_back(
        fmt::format("no kernels were measured on {}: its products and collectives reach the same shares of "
                    "its rates as those of "
                    "{} (cluster.kernels takes tables of your own)",
                    work.device.name, work.device.kernels));
  }
  if (in_force.rule == LayerSplit::Rule::balanced) notes.push_back(layers_note(split, work, layers));
  if (const std::int64_t predictions = prediction_count(split);
      predictions > 0 && work.model.multi_token == 0) {
    notes.push_back(
        fmt::format("the {} multi-token-prediction layers of layer_split are not priced, because "
                    "model.multi_token is 0",
                    predictions));
  }
  if (work.deferred_head) {
    notes.emplace_back(
        "the head's weight gradient is computed at the end of the step, from what all microbatches leave "
        "(training.deferred_head)");
  }
  if (work.model.experts) notes.push_back(experts_note(work, has_pairs));
  if (work.model.experts && work.unexplained_expert_seconds > 0) {
    notes.push_back(fmt::format(
        "each layer of experts has {:.4g} ms both ways that no known kernel explains (training.expert_layer)",
        work.unexplained_expert_seconds * 1e3));
  }
  return notes;
}

// --- device prices ---------------------------------------------------------------------------------------

namespace {

/// Returns the costs of all stages of the schedule, including the stages of `extra`.
tl::expected<CostTable, std::string> costs_of_copy(const Workload& work, const KernelTables& kernels,
                                                   std::span<const std::int64_t> layers,
                                                   std::span<const std::int32_t> rank_of_stage,
                                                   std::int64_t microbatches, ExtraStages extra) {
  return extra == ExtraStages::none
             ? copy_costs(work, kernels, layers, rank_of_stage, microbatches)
             : sliced_output_costs(work, kernels, layers, rank_of_stage, microbatches, extra);
}

/// Returns the number of layers of each stage under the split rule that applies. Fails if split_layers()
/// fails, or if there are too few layers for the stages.
tl::expected<std::vector<std::int64_t>, std::string> layers_by_stage(const DeviceModel& model,
                                                                     const Workload& work,
                                                                     const StatedSchedule& schedule,
                                                                     const Program& placed) {
  const auto layers = std::ssize(work.model.layers);
  const ExtraStages extra = extra_stages_of(placed);
  const std::int32_t stages = layer_stages(extra, placed.stage_count());
  const std::int64_t predictions = prediction_count(model.split);
  if (predictions > 0 && work.model.multi_token > 0 && predictions != work.model.multi_token) {
    return tl::unexpected(
        fmt::format("layer_split has {} multi-token-prediction layers (m), the model has {} "
                    "(model.multi_token); change one of them",
                    predictions, work.model.multi_token));
  }
  if (rule_of(model.split, work, stages) != LayerSplit::Rule::balanced)
    return split_layers(model.split, layers, stages);
  // Without the output layer, stages with equal numbers of layers are balanced.
  const bool has_head = extra == ExtraStages::none;
  if (!has_head && layers >= stages) return nearly_even_layers(layers, stages);
  if (has_head && has_layers_for(layers, stages))
    return balanced_split(work, *model.kernels, schedule, placed);
  return tl::unexpected(
      fmt::format("{} layers are too few for {} stages: each needs one, but for the first and the last; "
                  "choose fewer stages or virtual stages",
                  layers, stages));
}

}  // namespace

namespace {

/// Returns the costs of a copy with one slice of the sequences of a microbatch.
tl::expected<CostTable, std::string> costs_of_slice(const DevicePrices& prices, const Slice& slice) {
  Workload work = prices.work;
  work.before = slice.before;
  work.sequence = slice.tokens;
  if (const auto fault = fault_of(work))
    return tl::unexpected(fmt::format("{} (tokens {} to {})", *fault, slice.before, work.seen()));
  return costs_of_copy(work, *prices.kernels, prices.layers, prices.rank_of_stage, prices.microbatches,
                       prices.extra);
}

/// Returns the seconds of a slice's forward pass through all stages.
double forward_seconds(const DevicePrices& prices, const Slice& slice) {
  Workload work = prices.work;
  work.before = slice.before;
  work.sequence = slice.tokens;
  double sum = 0;
  for (const StagePrice& stage : price_stages(work, *prices.kernels, prices.layers, prices.rank_of_stage))
    sum += stage.forward_s;
  return sum;
}

/// Returns the slices of a sequence. The devices of a tensor group divide each slice, and slices of equal
/// time are multiples of 64 tokens if the sequence is long enough.
tl::expected<std::vector<Slice>, std::string> slices_of_sequence(const DevicePrices& prices,
                                                                 const SliceSizes& sizes,
                                                                 std::int64_t sequence, std::int64_t count) {
  constexpr std::int64_t kTile = 64;
  constexpr std::int64_t kTilesOfSlice = 4;
  std::int64_t step = prices.work.parallel.devices_per_rank();
  const bool is_long = sequence / (kTile * step) >= kTilesOfSlice * count;
  if (sizes.rule == SliceSizes::Rule::equal_time && is_long) step *= kTile;
  return slices_of(sizes, sequence, count, step,
                   [&](const Slice& slice) { return forward_seconds(prices, slice); });
}

/// Sets the figure's list of values from `microbatches`, which has one entry for each microbatch or, with
/// `by_slice`, for each slice. The single value of the figure becomes the mean of the list.
template <typename Value>
void set_by_microbatch(PerStage<Value>& figure, const std::vector<PerStage<Value>>& microbatches,
                       bool by_slice) {
  figure.place = "sequence";
  figure.by_slice = by_slice;
  figure.by_microbatch.assign(figure.values.size(), {});
  for (std::size_t stage = 0; stage < figure.values.size(); ++stage) {
    Wide sum = 0;
    for (const PerStage<Value>& microbatch : microbatches) {
      figure.by_microbatch[stage].push_back(microbatch.values[stage]);
      sum += microbatch.values[stage];
    }
    figure.values[stage] = static_cast<Value>(sum / static_cast<Wide>(microbatches.size()));
  }
}

/// Returns the sequence lengths of the microbatches in tokens, at most one for each microbatch. A shorter
/// list repeats.
std::vector<std::int64_t> sequences_of(const DeviceModel& model, std::int64_t microbatches) {
  std::vector<std::int64_t> sequences = model.sequences;
  if (sequences.empty()) sequences.push_back(model.work.sequence);
  sequences.resize(std::min(sequences.size(), static_cast<std::size_t>(microbatches)));
  return sequences;
}

/// Returns the slices of all `sequences`, one sequence after the other. If `of_sequence` is 1, each sequence
/// is a single slice.
tl::expected<std::vector<Slice>, std::string> all_slices(const DevicePrices& prices, const SliceSizes& sizes,
                                                         const std::vector<std::int64_t>& sequences,
                                                         std::int64_t of_sequence) {
  std::vector<Slice> all;
  for (const std::int64_t sequence : sequences) {
    if (of_sequence == 1) {
      all.push_back({.before = 0, .tokens = sequence});
      continue;
    }
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<Slice> slices,
                              slices_of_sequence(prices, sizes, sequence, of_sequence));
    all.insert(all.end(), slices.begin(), slices.end());
  }
  return all;
}

/// Returns the figures of the stages if microbatches have sequences of different lengths, or slices. The
/// costs of each microbatch or slice are computed separately. STEP takes the time that it has for the last
/// microbatch, because gradients are reduced during the backward pass of this microbatch. If there are
/// slices, `whole` has the time of STEP.
tl::expected<StageFigures, std::string> figures_by_slice(const DevicePrices& prices,
                                                         const std::vector<Slice>& slices,
                                                         const StageFigures* whole) {
  std::map<Slice, StageFigures> known;
  std::vector<const StageFigures*> microbatches;
  for (const Slice& slice : slices) {
    const auto [figures, fresh] = known.try_emplace(slice);
    if (fresh) {
      PENSTOCK_ASSIGN_OR_RETURN(const CostTable costs, costs_of_slice(prices, slice));
      figures->second = figures_of_stages(costs, action_ns(prices.work.action_seconds));
    }
    microbatches.push_back(&figures->second);
  }
  const std::size_t last = static_cast<std::size_t>(prices.microbatches - 1) % microbatches.size();
  StageFigures mean = whole != nullptr ? *whole : *microbatches[last];
  for (const auto figure :
       {&StageFigures::forward, &StageFigures::backward_input, &StageFigures::backward_weight,
        &StageFigures::kept, &StageFigures::released_by_input, &StageFigures::recomputed,
        &StageFigures::recomputed_at_once, &StageFigures::transient, &StageFigures::activation,
        &StageFigures::gradient}) {
    if (!(mean.*figure).given()) continue;
    std::vector<PerStage<std::int64_t>> of_microbatches;
    of_microbatches.reserve(microbatches.size());
    for (const StageFigures* microbatch : microbatches) of_microbatches.push_back(microbatch->*figure);
    set_by_microbatch(mean.*figure, of_microbatches, whole != nullptr);
  }
  return mean;
}

/// Returns a note on the lengths of the slices of the first microbatch.
std::string slices_note(const std::vector<Slice>& slices, std::int32_t of_microbatch) {
  std::vector<std::int64_t> tokens;
  tokens.reserve(static_cast<std::size_t>(of_microbatch));
  for (std::int32_t i = 0; i < of_microbatch; ++i)
    tokens.push_back(slices[static_cast<std::size_t>(i)].tokens);
  return fmt::format("each slice is priced at its own place in the sequence; their tokens: [{}]",
                     fmt::join(tokens, ", "));
}

/// Computes the costs of each slice at its position in the sequence, or of each microbatch at its own length,
/// and stores them in `priced`. Returns a note on the lengths of the slices, or an empty text if microbatches
/// have no slices.
tl::expected<std::string, std::string> set_slice_figures(Model& priced, const DevicePrices& prices,
                                                         const DeviceModel& model,
                                                         std::int32_t of_microbatch) {
  // With context parallelism, the parts of a sequence on the devices already have equal shares of attention.
  // Slices then stay equal shares of a microbatch.
  const bool by_slice = of_microbatch > 1 && prices.work.parallel.context == 1;
  if (!by_slice && model.sequences.empty()) return std::string();
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<Slice> slices,
                            all_slices(prices, model.slices, sequences_of(model, prices.microbatches),
                                       by_slice ? of_microbatch : 1));
  const StageFigures whole = std::get<StageFigures>(priced);
  PENSTOCK_ASSIGN_OR_RETURN(priced, figures_by_slice(prices, slices, by_slice ? &whole : nullptr));
  return by_slice ? slices_note(slices, of_microbatch) : std::string();
}

/// Returns the operations and the tokens of a sample, as means over `most` microbatches. A shorter list of
/// sequences is repeated. If the list is empty, all samples have the workload's own sequence.
TrainedModel trained_on(const Workload& work, const std::vector<std::int64_t>& sequences, std::size_t most) {
  TrainedModel trained = trained_by(work);
  const std::size_t count = std::min(sequences.size(), most);
  if (count == 0) return trained;
  trained.flops_per_sample = 0;
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < most; ++i) {
    tokens += sequences[i % count];
    trained.flops_per_sample += operations_of_sample(work, sequences[i % count]) / static_cast<double>(most);
  }
  trained.tokens_per_sample = tokens / static_cast<std::int64_t>(most);
  return trained;
}

}  // namespace

tl::expected<DevicePrices, std::string> device_prices(OneCopy copy, const ScheduleInForce& in_force,
                                                      const Program& placed) {
  const auto model = std::get<DeviceModel>(copy.scenario.model);
  Workload work = *std::move(copy.work);
  work.micro_batch_size = in_force.batch.micro_batch_size;
  auto layers = layers_by_stage(model, work, in_force.schedule, placed);
  if (!layers) return tl::unexpected(layers.error());
  std::vector<std::int32_t> ranks = placed.placement.ranks_of_stages();
  const std::int64_t microbatches = in_force.batch.microbatches;
  const ExtraStages extra = extra_stages_of(placed);
  const auto costs = costs_of_copy(work, *model.kernels, *layers, ranks, microbatches, extra);
  if (!costs) return tl::unexpected(costs.error());
  Scenario priced = std::move(copy.scenario);
  // In the resulting scenario a rank is one device. Its cluster contains only the links between the stages of
  // one copy, so the stated cluster is removed.
  priced.cluster.shape = links_between_stages(work);
  if (!work.later_devices.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(priced.cluster.shape, unlike_stages_cluster(work));
  }
  priced.cluster.built.reset();
  // A rank represents its devices in all copies, so its price per hour is the sum over these devices.
  if (auto& price = priced.cluster.price_per_device_hour)
    *price *= work.parallel.devices_per_rank() * static_cast<double>(work.parallel.data);
  priced.model = figures_of_stages(*costs, action_ns(work.action_seconds));
  DevicePrices prices{.settled = {},
                      .work = work,
                      .kernels = model.kernels,
                      .layers = *layers,
                      .rank_of_stage = ranks,
                      .microbatches = microbatches,
                      .extra = extra};
  PENSTOCK_ASSIGN_OR_RETURN(const std::string of_slices,
                            set_slice_figures(priced.model, prices, model, placed.slices));
  priced.batch = in_force.stated;
  // The costs hold for exactly this microbatch size, so no figure is scaled later.
  priced.batch.own_micro_batch_size = work.micro_batch_size;
  const ScheduleInfo* schedule = priced.program ? nullptr : find_schedule(priced.schedule);
  const bool has_pairs = work.parallel.expert_overlap || (schedule != nullptr && schedule->has_pairs);
  for (std::string& note : device_notes(work, model.split, *layers, has_pairs))
    priced.notes.push_back(std::move(note));
  if (extra != ExtraStages::none) {
    priced.notes.push_back(fmt::format(
        "the output layer is divided over {} ranks, which hold its input and their part of the logits from "
        "one pass to the other; the embedding is on the first rank",
        layers->size()));
  }
  if (!model.sequences.empty()) {
    priced.notes.push_back(
        fmt::format("each microbatch is priced at its own sequence: [{}]", fmt::join(model.sequences, ", ")));
  }
  if (!of_slices.empty()) priced.notes.push_back(of_slices);
  prices.settled = {.scenario = std::move(priced),
                    .copies = work.parallel.data,
                    .trained = trained_on(work, model.sequences, static_cast<std::size_t>(microbatches))};
  return prices;
}

tl::expected<DevicePrices, std::string> price_on_devices(const Scenario& scenario) {
  PENSTOCK_ASSIGN_OR_RETURN(OneCopy copy, one_copy(scenario));
  PENSTOCK_ASSIGN_OR_RETURN(const ScheduleInForce in_force, schedule_in_force(copy.scenario, copy.copies));
  PENSTOCK_ASSIGN_OR_RETURN(const Program placed, placed_stages(in_force.schedule));
  return device_prices(std::move(copy), in_force, placed);
}

// The times need no check against 64 bits. device_prices() has checked similar times, and a fit changes the
// constants only by limited factors.
void set_times(CostTable& costs, const DevicePrices& prices, const Workload& work) {
  const std::vector<std::int32_t>& ranks = prices.rank_of_stage;
  const std::vector<StagePrice> stages = price_stages(work, *prices.kernels, prices.layers, ranks);
  costs = chain_costs(stages, ranks, longest_step(work, *prices.kernels, stages, ranks), prices.microbatches);
}

// --- fitted figures --------------------------------------------------------------------------------------
//
// The forward pass takes a third of a microbatch's time, because each of its matrix products needs two
// products in the backward pass. An activation has two bytes for each token and hidden dimension.

namespace {

constexpr std::int64_t kForwardPart = 3;
constexpr std::int64_t kBytesOfActivation = 2;

}  // namespace

StageFigures fitted_figures(const FittedModel& model, const std::vector<FittedStage>& stages) {
  const std::string place = "model.fitted";
  StageFigures figures;
  figures.forward = {.values = {}, .is_list = true, .place = place};
  figures.backward = figures.forward;
  figures.step = figures.forward;
  for (const FittedStage& stage : stages) {
    const std::int64_t forward_ns = stage.microbatch_ns / kForwardPart;
    figures.forward.values.push_back(forward_ns);
    figures.backward.values.push_back(stage.microbatch_ns - forward_ns);
    figures.step.values.push_back(stage.step_ns);
  }
  // The product may exceed 64 bits. Then the largest value is used, and byte_fault() reports it.
  const Wide activation = static_cast<Wide>(kBytesOfActivation) * model.kind.micro_batch_size *
                          model.kind.sequence * model.kind.hidden;
  figures.activation = {.values = {saturated(activation)}, .is_list = false, .place = place};
  return figures;
}

std::string fit_note(const FittedModel& model) {
  return fmt::format(
      "costs fitted on {}: {} layers of {}, data {}; a third of a microbatch is forward, the last stage has "
      "the head; of memory they say nothing",
      model.costs->source, model.layers, to_text(model.kind), model.copies);
}

// --- fitted prices ---------------------------------------------------------------------------------------

tl::expected<SettledScenario, std::string> fitted_prices(OneCopy copy, const ScheduleInForce& in_force,
                                                         const Program& placed) {
  auto model = std::get<FittedModel>(copy.scenario.model);
  model.kind.micro_batch_size = in_force.batch.micro_batch_size;
  // Layers are divided evenly, because costs were fitted for layers of one kind. schedule.layer_split applies
  // only to models on devices.
  const std::int32_t count = placed.stage_count();
  if (model.layers % count != 0) {
    return tl::unexpected(
        fmt::format("{} layers do not divide over {} stages; choose other stages or virtual stages",
                    model.layers, count));
  }
  const std::vector<std::int64_t> layers(static_cast<std::size_t>(count), model.layers / count);
  const std::vector<std::int32_t> ranks = placed.placement.ranks_of_stages();
  const auto stages = fitted_stages(
      *model.costs, {.kind = model.kind, .copies = model.copies, .layers = layers, .rank_of_stage = ranks});
  if (!stages) return tl::unexpected("model.fitted: " + stages.error());
  Scenario priced = std::move(copy.scenario);
  priced.model = fitted_figures(model, *stages);
  priced.batch = in_force.stated;
  priced.batch.own_micro_batch_size = in_force.batch.micro_batch_size;
  priced.notes.push_back(fit_note(model));
  return SettledScenario{.scenario = std::move(priced), .copies = model.copies};
}

}  // namespace penstock

#pragma once
// Cuts a sequence into slices, for schedules that run slice after slice: Seq1F1B in training, and chunked
// prefill. With causal attention a later slice attends to more tokens, so slices of equal length take longer
// and longer, and slices of equal time become shorter and shorter.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/pricing/iteration_costs.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export
#include "topology/presets.hpp"

namespace penstock {

/// The rule that determines how many tokens each slice of a sequence has.
struct SliceSizes {
  enum class Rule : std::uint8_t {
    even,        // all slices have equally many tokens, up to rounding
    equal_time,  // all slices take equally long
    fixed,       // each slice has tokens.front() tokens; the last one has the rest
    listed,      // slice i has tokens[i] tokens
  };
  Rule rule = Rule::even;
  std::vector<std::int64_t> tokens{};

  friend bool operator==(const SliceSizes&, const SliceSizes&) = default;
};

/// A slice of a sequence.
struct Slice {
  std::int64_t before = 0;  ///< the tokens of the sequence before the slice
  std::int64_t tokens = 0;  ///< the tokens of the slice

  friend auto operator<=>(const Slice&, const Slice&) = default;
};

/// A function that returns the time of a slice, in any unit. A longer slice must take at least as long.
using SliceTime = std::function<double(const Slice& slice)>;

/// Returns the number of slices that the rule makes of a sequence. Requires a rule with stated tokens:
/// `fixed` or `listed`.
std::int64_t slice_count(const SliceSizes& sizes, std::int64_t sequence);

/// Cuts a sequence into `count` slices. All but the last have a multiple of `step` tokens, unless the tokens
/// are listed. Returns an error if there are fewer steps than slices, or if stated tokens do not add up to
/// the sequence.
tl::expected<std::vector<Slice>, std::string> slices_of(const SliceSizes& sizes, std::int64_t sequence,
                                                        std::int64_t count, std::int64_t step,
                                                        const SliceTime& time);

// The properties of the trained model that determine time and memory. A model has one of five forms: unit
// costs, costs of each stage, a graph of layers, a transformer on named devices, or fitted costs. load.hpp
// reads a model from YAML, and program_prices.hpp computes its costs.

/// One kind of device, for clusters whose devices are of several kinds, and the number of devices of this
/// kind.
struct DeviceKind {
  DeviceType type;
  std::shared_ptr<const KernelTables> kernels;
  std::int64_t devices = 1;

  friend bool operator==(const DeviceKind&, const DeviceKind&) = default;
};

/// A transformer on devices that the scenario names, with the settings of its training.
/// `work.micro_batch_size`, `work.ranks` and `work.parallel.data` are set later, when the costs are
/// computed.
struct DeviceModel {
  Workload work;
  LayerSplit split;
  std::shared_ptr<const KernelTables> kernels;
  std::int64_t devices = 1;  ///< the number of devices of the cluster
  /// The kinds of devices in the order of the ranks. Empty if all devices are of one kind; otherwise the
  /// first is `work.device`.
  std::vector<DeviceKind> kinds{};
  /// The number of copies of the pipeline. If it is absent, the copies use all devices of the cluster.
  std::optional<std::int32_t> copies;
  /// The value of `parallel.distributed_optimizer`, or nothing if the scenario does not state it. The value
  /// determines `work.parallel.sharding`, unless the schedule states the sharding.
  std::optional<bool> distributed_optimizer{};
  bool states_order = false;  ///< true if the scenario states `work.parallel.order`
  /// The number of tokens in a sample, for each microbatch. The list repeats until it covers all M
  /// microbatches. If it is empty, all samples have `work.sequence` tokens. Otherwise `work.sequence` is
  /// the largest entry.
  std::vector<std::int64_t> sequences{};
  /// The rule that cuts a sequence into slices, for schedules with slices.
  SliceSizes slices{};

  friend bool operator==(const DeviceModel&, const DeviceModel&) = default;
};

/// A model whose costs were fitted to measured iterations of one machine. prepare/priced_scenario.hpp
/// computes the costs of its stages when the number of stages and the microbatch size are known.
struct FittedModel {
  std::shared_ptr<const IterationCosts> costs;
  FittedLayer kind;  ///< `micro_batch_size` is set later, when the costs are computed
  std::int64_t layers = 1;
  std::int32_t copies = 1;  ///< the number of copies of the pipeline

  friend bool operator==(const FittedModel&, const FittedModel&) = default;
};

/// A number that a scenario states for its stages, such as a time. The scenario states one value for all
/// stages or one for each stage. Instead of a value, it may state a list with one value for each microbatch,
/// or for each slice of a microbatch.
template <typename Value>
struct PerStage {
  /// The values, empty if the figure is not stated. If microbatches or slices differ, a value is their mean.
  std::vector<Value> values;
  /// True if `values` has one element for each stage. If it is false, `values` has at most one element,
  /// which holds for all stages.
  bool is_list = false;
  /// The place of the figure in the file, for messages, such as "a.yaml:3:14: model.stages.forward".
  std::string place;
  /// The values of the microbatches, one list for each element of `values`. A list repeats if it is shorter
  /// than the number of microbatches. It is empty if all microbatches have the same value. The outer vector
  /// may be empty if all its lists would be.
  std::vector<std::vector<Value>> by_microbatch{};
  /// True if `by_microbatch` has one value for each slice instead: the slices of microbatch 0, then those of
  /// microbatch 1, and so on.
  bool by_slice = false;

  bool given() const { return !values.empty(); }
  /// Returns the value for `stage`, or `fallback` if the scenario does not state the figure. If there is
  /// one value for each stage, `stage` must be one of them.
  Value of(std::int32_t stage, Value fallback) const {
    if (values.empty()) return fallback;
    return is_list ? values[static_cast<std::size_t>(stage)] : values.front();
  }

  /// Returns the figures of one unit. A unit is one slice, and a microbatch has `slices` slices. A figure
  /// that is stated for each microbatch stays the figure of the whole microbatch.
  PerStage at_unit(std::size_t unit, std::size_t slices) const {
    PerStage one{.values = values, .is_list = is_list, .place = place};
    const std::size_t entry = by_slice ? unit : unit / slices;
    for (std::size_t i = 0; i < by_microbatch.size(); ++i) {
      if (!by_microbatch[i].empty()) one.values[i] = by_microbatch[i][entry % by_microbatch[i].size()];
    }
    return one;
  }

  friend bool operator==(const PerStage&, const PerStage&) = default;
};

/// The part of a model whose forward pass takes 1 ms if the scenario states no model.
enum class CostUnit : std::uint8_t {
  rank,   // all stages of a rank together; each of its v chunks takes 1/v ms
  stage,  // each stage of a rank by itself
};
template <>
inline constexpr auto kEnumWords<CostUnit> =
    std::to_array<EnumWord<CostUnit>>({{CostUnit::rank, "rank"}, {CostUnit::stage, "stage"}});

/// The costs that are used if the scenario states no model. The actions F, I and W of a unit take 1 ms each,
/// and B takes 2 ms. The memory that F allocates and retains counts as one activation
/// (schedules/ir/cost_table.hpp).
struct UnitCosts {
  CostUnit unit = CostUnit::rank;

  friend bool operator==(const UnitCosts&, const UnitCosts&) = default;
};

/// The costs that the scenario states for each stage. They hold for the microbatch size that the file
/// states.
struct StageFigures {
  PerStage<Ns> forward;
  /// The time of the full backward pass: the sum backward_input + backward_weight. If only this sum is
  /// stated, each part is half of it.
  PerStage<Ns> backward;
  PerStage<Ns> backward_input;
  PerStage<Ns> backward_weight;
  PerStage<Ns> recompute;        ///< the default is the time of `forward`
  PerStage<Ns> overlapped_pair;  ///< the default is the sum of the times of both passes
  PerStage<Ns> pair_hidden;      ///< subtracted from the sum of a pair's passes; the default is 0
  PerStage<Ns> step;             ///< the default is 0; the time does not depend on the microbatch size
  PerStage<Ns> overhead;         ///< added once to each F, B, I, W and R, for any microbatch size
  PerStage<Bytes> activation;    ///< sent forward over each outgoing edge of the stage
  PerStage<Bytes> gradient;      ///< sent back over each outgoing edge; the default is `activation`
  /// The bytes that the stage's RECVs expect for one activation and for one gradient. If they are not stated,
  /// the stage expects the bytes that are sent.
  PerStage<Bytes> expected_activation;
  PerStage<Bytes> expected_gradient;
  PerStage<Bytes> kept;
  PerStage<Bytes> released_by_input;
  PerStage<Bytes> recomputed;
  PerStage<Bytes> recomputed_at_once;  ///< the recomputed activations; `transient` includes these bytes
  PerStage<Bytes> input;
  PerStage<Bytes> weights;
  PerStage<Bytes> gradients;        ///< the default is `weights`
  PerStage<Bytes> optimizer_state;  ///< the default follows from the optimizer and `weights`
  PerStage<Bytes> transient;
  std::vector<StageEdge> edges;  ///< the edges of the model; if empty, the stages are a chain

  /// Returns the figures of one unit. A unit is one slice, and a microbatch has `slices` slices.
  StageFigures at_unit(std::size_t unit, std::size_t slices) const;
  /// Returns true if at least one of these figures has a value for each slice.
  bool slices_differ() const;
  /// Returns the figures with each figure of a slice multiplied by `slices`. Each result is the figure of a
  /// microbatch with `slices` slices that are all equal to this slice. Returns an error if the length of a
  /// list is not a multiple of `slices`, or if a figure exceeds 2^63.
  tl::expected<StageFigures, std::string> as_of_microbatches(std::int32_t slices) const;
  /// Returns one entry for each list that has a value for each microbatch or slice: the number of
  /// microbatches in the list, and its place in the scenario file. A list of the slices of one microbatch
  /// holds for all microbatches and is left out. The result is empty if all microbatches have the same costs.
  std::vector<std::pair<std::size_t, std::string>> microbatch_lists(std::int32_t slices) const;
  /// Returns the number of microbatches after which all lists of microbatch_lists() repeat. The result
  /// divides `microbatches`, so that all iterations are equal. Returns 0 if all microbatches have the same
  /// costs.
  std::size_t microbatch_period(std::int32_t microbatches, std::int32_t slices) const;

  friend bool operator==(const StageFigures&, const StageFigures&) = default;
};

/// Pointers to all members of StageFigures that hold a time or a number of bytes.
inline constexpr std::array kStageFigures = {&StageFigures::forward,
                                             &StageFigures::backward,
                                             &StageFigures::backward_input,
                                             &StageFigures::backward_weight,
                                             &StageFigures::recompute,
                                             &StageFigures::overlapped_pair,
                                             &StageFigures::pair_hidden,
                                             &StageFigures::step,
                                             &StageFigures::overhead,
                                             &StageFigures::activation,
                                             &StageFigures::gradient,
                                             &StageFigures::expected_activation,
                                             &StageFigures::expected_gradient,
                                             &StageFigures::kept,
                                             &StageFigures::released_by_input,
                                             &StageFigures::recomputed,
                                             &StageFigures::recomputed_at_once,
                                             &StageFigures::input,
                                             &StageFigures::weights,
                                             &StageFigures::gradients,
                                             &StageFigures::optimizer_state,
                                             &StageFigures::transient};

/// One layer of a model. Its costs hold for the microbatch size that the file states.
struct Layer {
  std::string name;
  Ns forward_ns = 0;
  Ns backward_ns = 0;
  Bytes output = 0;             ///< the bytes that the layer sends to the next layers
  std::optional<Bytes> kept{};  ///< the bytes that are stored from F to B; if absent, they are `output`
  Bytes weights = 0;
  Bytes transient = 0;   ///< the bytes that are stored only while F or B of the layer runs
  Bytes recomputed = 0;  ///< the part of `transient` for activations that B computes again and W reads
  /// The indices, in ascending order, of the layers from which this layer reads. All are smaller than the
  /// layer's own index.
  std::vector<std::int32_t> inputs;

  Bytes kept_bytes() const { return kept.value_or(output); }

  friend bool operator==(const Layer&, const Layer&) = default;
};

/// The layers of a model. Each layer is stored after the layers whose outputs it reads.
struct LayerGraph {
  std::vector<Layer> layers;
  Ns overhead_ns = 0;  ///< added once to each F, B, I, W and R of a stage, for any microbatch size
  /// The slowness of each device of the cluster: its time for a layer divided by the time that the layer
  /// states. If the list is empty, all devices take the stated times.
  std::vector<double> device_slowness{};

  friend bool operator==(const LayerGraph&, const LayerGraph&) = default;
};

/// The network that PyTorch trains in an executed run. It has a name from backend/torch/networks.hpp and
/// the sizes that the scenario states. The network's costs for predictions are in the scenario's Model.
struct NetworkSpec {
  std::string name;
  std::map<std::string, std::int64_t> sizes;
  /// The folder of stages that were exported from PyTorch, if `name` is "graphs". It is empty for all other
  /// networks.
  std::string graphs{};
  std::string place;  ///< the place in the file, for messages, such as "a.yaml:3:14: model.network"

  friend bool operator==(const NetworkSpec&, const NetworkSpec&) = default;
};

/// The model of a scenario, in one of the five forms in which a scenario can state it.
using Model = std::variant<UnitCosts, StageFigures, LayerGraph, DeviceModel, FittedModel>;

// A model that is stated by the times of a prompt's chunks. Chunked prefill runs the chunks one after the
// other through the stages of a pipeline, and later chunks attend to more tokens.

/// The costs of each chunk of a prompt on each stage. Let L tokens precede a chunk of x tokens. On each
/// stage, the chunk takes fixed + earlier L + token x + pair (2 L x + x^2) ns.
struct ChunkModel {
  std::int64_t prompt = 1;  ///< the tokens of a prompt
  double fixed_ns = 0;
  double earlier_ns = 0;
  double token_ns = 0;
  double pair_ns = 0;
  Bytes activation = 0;  ///< the bytes of a token that a stage sends to the next one
  Bytes kept = 0;        ///< the bytes of a token's keys and values on a stage
  Bytes weights = 0;     ///< the bytes of a stage's weights

  friend bool operator==(const ChunkModel&, const ChunkModel&) = default;
};

/// Returns the time of a chunk in ns.
double chunk_ns(const ChunkModel& model, const Slice& chunk);

/// Returns the times and bytes of the stages for each chunk of a prompt, which is cut into `count` chunks.
/// Returns an error if slices_of() does, or if times or bytes exceed 2^63.
tl::expected<StageFigures, std::string> chunk_figures(const ChunkModel& model, const SliceSizes& sizes,
                                                      std::int64_t count);

}  // namespace penstock

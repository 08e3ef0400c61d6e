#pragma once
// What is trained, as far as time and memory depend on it. It is nothing (unit costs), costs of each stage, a
// graph of layers that partition.hpp cuts into stages, a transformer on named devices, or a model whose costs
// were fitted. load.hpp reads it from YAML, and program_prices.hpp prices it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "scenarios/pricing/iteration_costs.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The model, its training and its machine. `work.micro_batch_size`, `work.ranks` and `work.parallel.data`
/// are set when the model is priced.
struct DeviceModel {
  Workload work;
  LayerSplit split;
  std::shared_ptr<const KernelTables> kernels;
  std::int64_t devices = 1;  ///< the number of devices of the cluster
  /// The copies of the pipeline. If absent, there are as many copies as fill the cluster.
  std::optional<std::int32_t> copies;
  /// The stated `parallel.distributed_optimizer`; absent if the scenario does not state it.
  /// `work.parallel.sharding` follows from it, unless the schedule states the sharding.
  std::optional<bool> distributed_optimizer{};
  bool states_order = false;  ///< true if the scenario states `work.parallel.order`

  friend bool operator==(const DeviceModel&, const DeviceModel&) = default;
};

// A model whose costs were fitted on measured iterations of one machine. prepare/priced_scenario.hpp computes
// the costs of its stages when the number of stages and the microbatch size are known.

struct FittedModel {
  std::shared_ptr<const IterationCosts> costs;
  FittedLayer kind;  ///< `micro_batch_size` is set when the model is priced
  std::int64_t layers = 1;
  std::int32_t copies = 1;  ///< the number of copies of the pipeline

  friend bool operator==(const FittedModel&, const FittedModel&) = default;
};

/// A figure that is given once for all stages or once a stage, and there once for all microbatches or once a
/// microbatch.
template <typename Value>
struct PerStage {
  std::vector<Value> values;  ///< empty: not given; the mean where microbatches differ
  bool is_list = false;       ///< one a stage; otherwise values has at most one element
  std::string place;          ///< where it was written, for messages: "a.yaml:3:14: model.stages.forward"
  /// Empty, or as many as `values`: what each microbatch has, repeated beyond the end; empty where all have
  /// the value.
  std::vector<std::vector<Value>> by_microbatch{};

  bool given() const { return !values.empty(); }
  /// The figure of `stage`, `fallback` when it is not given. Requires a list to be long enough.
  Value of(std::int32_t stage, Value fallback) const {
    if (values.empty()) return fallback;
    return is_list ? values[static_cast<std::size_t>(stage)] : values.front();
  }

  /// The figures of one microbatch.
  PerStage at_microbatch(std::size_t microbatch) const {
    PerStage one{.values = values, .is_list = is_list, .place = place};
    for (std::size_t i = 0; i < by_microbatch.size(); ++i) {
      if (!by_microbatch[i].empty()) one.values[i] = by_microbatch[i][microbatch % by_microbatch[i].size()];
    }
    return one;
  }

  friend bool operator==(const PerStage&, const PerStage&) = default;
};

/// The part of a model that takes F = 1 ms where no model is given.
enum class CostUnit : std::uint8_t {
  rank,   // all that a rank computes for one microbatch: a chunk of v takes 1/v of it
  stage,  // each stage
};
template <>
inline constexpr auto kEnumWords<CostUnit> =
    std::to_array<EnumWord<CostUnit>>({{CostUnit::rank, "rank"}, {CostUnit::stage, "stage"}});

/// F, I and W of a unit take 1 ms, B 2 ms, and what its F keeps counts as one activation
/// (schedules/ir/cost_table.hpp).
struct UnitCosts {
  CostUnit unit = CostUnit::rank;

  friend bool operator==(const UnitCosts&, const UnitCosts&) = default;
};

/// Costs written stage by stage, each for the file's own microbatch.
struct StageFigures {
  PerStage<Ns> forward;
  PerStage<Ns> backward;  ///< = backward_input + backward_weight; given alone: split in half
  PerStage<Ns> backward_input;
  PerStage<Ns> backward_weight;
  PerStage<Ns> recompute;        ///< default: forward
  PerStage<Ns> overlapped_pair;  ///< default: the sum of its parts
  PerStage<Ns> step;             ///< default 0; not scaled with the microbatch
  PerStage<Ns> overhead;         ///< added once to each F, B, I, W and R; not scaled
  PerStage<Bytes> activation;    ///< sent forward over each edge out of the stage
  PerStage<Bytes> gradient;      ///< sent back over each edge out of the stage; default: activation
  PerStage<Bytes> kept;
  PerStage<Bytes> released_by_input;
  PerStage<Bytes> recomputed;
  PerStage<Bytes> recomputed_at_once;  ///< a part of `transient`
  PerStage<Bytes> input;
  PerStage<Bytes> weights;
  PerStage<Bytes> gradients;        ///< default: weights
  PerStage<Bytes> optimizer_state;  ///< default: by the optimizer
  PerStage<Bytes> transient;
  std::vector<StageEdge> edges;  ///< empty: the program's own (a chain)

  /// Of one microbatch alone.
  StageFigures at_microbatch(std::size_t microbatch) const;
  /// The lengths of all lists that have an entry a microbatch, with the place of each; empty where all
  /// microbatches are alike.
  std::vector<std::pair<std::size_t, std::string>> microbatch_lists() const;
  /// After how many of M `microbatches` all of these lists have repeated together: a divisor of M, so that
  /// every iteration has the same. 0 where all are alike.
  std::size_t microbatch_period(std::int32_t microbatches) const;

  friend bool operator==(const StageFigures&, const StageFigures&) = default;
};

/// All figures of a stage.
inline constexpr std::array kStageFigures = {&StageFigures::forward,        &StageFigures::backward,
                                             &StageFigures::backward_input, &StageFigures::backward_weight,
                                             &StageFigures::recompute,      &StageFigures::overlapped_pair,
                                             &StageFigures::step,           &StageFigures::overhead,
                                             &StageFigures::activation,     &StageFigures::gradient,
                                             &StageFigures::kept,           &StageFigures::released_by_input,
                                             &StageFigures::recomputed,     &StageFigures::recomputed_at_once,
                                             &StageFigures::input,          &StageFigures::weights,
                                             &StageFigures::gradients,      &StageFigures::optimizer_state,
                                             &StageFigures::transient};

/// One layer of a model, for the file's own microbatch.
struct Layer {
  std::string name;
  Ns forward_ns = 0;
  Ns backward_ns = 0;
  Bytes output = 0;             ///< what it hands on
  std::optional<Bytes> kept{};  ///< held from F to B; absent: the output
  Bytes weights = 0;
  Bytes transient = 0;   ///< held while its F or its B runs
  Bytes recomputed = 0;  ///< activations among `transient` that B computes again, and that W reads
  std::vector<std::int32_t>
      inputs;  ///< indices of the layers that it reads, all smaller than its own; ascending

  Bytes kept_bytes() const { return kept.value_or(output); }

  friend bool operator==(const Layer&, const Layer&) = default;
};

/// Layers in an order in which they can run.
struct LayerGraph {
  std::vector<Layer> layers;
  Ns overhead_ns = 0;  ///< added once to each F, B, I, W and R of a stage; not scaled

  friend bool operator==(const LayerGraph&, const LayerGraph&) = default;
};

/// What the model computes, for a run that really does: a network of backend/torch/networks.hpp by its name,
/// with those of its sizes that are stated. What it costs is said by the Model beside it.
struct NetworkSpec {
  std::string name;
  std::map<std::string, std::int64_t> sizes;
  std::string place;  ///< where it was written, for messages: "a.yaml:3:14: model.network"

  friend bool operator==(const NetworkSpec&, const NetworkSpec&) = default;
};

/// A model in one of its forms.
using Model = std::variant<UnitCosts, StageFigures, LayerGraph, DeviceModel, FittedModel>;

}  // namespace penstock

#pragma once
// One stage of a model on LibTorch tensors, as the executor drives it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/executor/executor.hpp"
#include "backend/executor/payload.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/torch/layer.hpp"
#include "backend/torch/loss.hpp"
#include "backend/torch/memory_meter.hpp"
#include "backend/torch/optimizer.hpp"
#include "backend/torch/stage_weights.hpp"
#include "report/print/memory_category.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock::nn {

/// What a message between stages, or a member of a collective, carries. Nobody changes the tensors.
struct TensorPayload : PayloadContent {
  explicit TensorPayload(Tensors content) : tensors(std::move(content)) {}
  Tensors tensors;
};

/// How a stage that several stages feed makes one input of theirs.
enum class Join : std::uint8_t {
  sum,
  concatenate,  // along the last dimension, by ascending stage
};

/// What a stage computes: y = layer(join of its inputs), handed to every stage that it feeds.
struct StageDefinition {
  LayerPointer layer;
  Tensors weights;  ///< of version 0
  Join join = Join::sum;
  Loss loss = Loss::mean_squared_error;  ///< where the stage feeds nobody
};

/// What a STEP is about to use.
struct StepReport {
  std::int32_t rank = 0;
  std::int32_t stage = 0;
  std::int32_t version = 0;  ///< that the STEP makes
  const Tensors& gradient;   ///< reduced; empty where no microbatch contributed
};

/// What all stages of a run share. The functions are called from the worker threads, at the same time.
struct Training {
  std::function<at::Tensor(std::int32_t microbatch)> inputs;   ///< of stages that nobody feeds
  std::function<at::Tensor(std::int32_t microbatch)> targets;  ///< of stages that feed nobody
  OptimizerOptions optimizer;
  double loss_scale = 1;                            ///< gradients are those of loss_scale * sum of the losses
  std::uint64_t seed = 1;                           ///< of dropout
  std::function<void(const StepReport&)> observer;  ///< may be empty
};

class TorchStage : public StageModule {
 public:
  struct Place {
    std::int32_t rank = 0;
    std::int32_t stage = 0;
    std::optional<Shard> shard;            ///< the program gathers the stage's weights
    std::shared_ptr<MemoryMeter> meter{};  ///< of the rank; may be null
  };
  TorchStage(StageDefinition definition, std::shared_ptr<const Training> training, Place place);

  std::vector<Payload> forward(const ComputeCall& call, std::vector<Payload> inputs) override;
  std::vector<Payload> backward(const ComputeCall& call, std::vector<Payload> gradients) override;
  std::vector<Payload> backward_input(const ComputeCall& call, std::vector<Payload> gradients) override;
  void backward_weight(const ComputeCall& call) override;
  void recompute(const ComputeCall& call) override;
  void step(const ComputeCall& call) override;
  void drop_version(std::int32_t version) override;
  Payload contribution(ActionKind collective) override;
  void accept(ActionKind collective, std::span<const SharedPayload> contributions) override;
  void reshard() override;

  /// Losses of the microbatches so far, unscaled; empty where the stage feeds somebody.
  std::map<std::int32_t, double> losses() const;
  const StageWeights& weights() const { return weights_; }
  /// Microbatches of which something is still held.
  std::size_t held() const { return held_.size(); }
  /// What it holds now; a tensor that several stages hold counts in each. A version that the STEP before has
  /// made old is transient until it is dropped or used.
  MemoryByCategory held_bytes() const;
  const std::shared_ptr<MemoryMeter>& meter() const { return place_.meter; }

 private:
  struct Held {
    at::Tensor input;
    std::vector<std::int64_t> widths;  // of the inputs that were concatenated
    std::optional<Record> record;      // between F or R and the backward's last part
    at::Tensor loss_gradient;          // where the stage feeds nobody
    std::int64_t bytes = 0;            // of all of it
  };
  /// Makes the stage's one input of several.
  void join(Held& held, const std::vector<Payload>& inputs) const;
  /// Runs the layer on the held input, and holds what it leaves; returns its output.
  at::Tensor activate(const ComputeCall& call, Held& held);
  /// Throws std::logic_error where F, or R behind a re-materialised F, has not run.
  Held& ready_for_backward(const ComputeCall& call);
  /// Brings held.bytes, and the sum over all, to what is held now.
  void count(Held& held);
  /// Its backward is complete.
  void forget(std::int32_t microbatch);
  /// Tells the rank's meter what the stage holds after `what`; an empty text is no action.
  void report(std::string_view what);
  void observe(const Tensors& gradient) const;
  std::vector<Payload> given_back(const ComputeCall& call, const Held& held,
                                  const at::Tensor& of_input) const;

  StageDefinition definition_;
  std::shared_ptr<const Training> training_;
  Place place_;
  StageWeights weights_;
  std::map<std::int32_t, Held> held_;
  std::int64_t activation_bytes_ = 0;  // of held_
  bool stepped_ = false;               // the last call was a STEP
  Tensors gradient_;                   // since the last REDUCE_GRAD or STEP; empty: nothing yet
  std::optional<Tensors> reduced_;     // since the last STEP
  Tensors observed_;                   // their whole sums, for an observer of a shard's gradients
  std::map<std::int32_t, at::Tensor> losses_;
};

/// A module on each rank (or on one) for each stage that it holds; definitions are by stage.
StageModules torch_modules(const Program& program, const std::vector<StageDefinition>& definitions,
                           const std::shared_ptr<const Training>& training,
                           std::optional<std::int32_t> only_rank = {});

}  // namespace penstock::nn

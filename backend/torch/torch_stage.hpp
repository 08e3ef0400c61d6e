#pragma once
// One stage of a model on LibTorch tensors, as a module of the executor.

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

/// The content of a message between stages, or of a member's contribution to a collective. The tensors must
/// not be changed.
struct TensorPayload : PayloadContent {
  explicit TensorPayload(Tensors content) : tensors(std::move(content)) {}
  Tensors tensors;
};

/// How a stage combines the outputs of several stages into one input.
enum class Join : std::uint8_t {
  sum,
  concatenate,  // along the last dimension, by ascending stage
};

/// The computation of a stage: y = layer(join of its inputs). y goes to every stage that it feeds.
struct StageDefinition {
  LayerPointer layer;
  Tensors weights;  ///< weights of version 0
  Join join = Join::sum;
  Loss loss = Loss::mean_squared_error;  ///< used if the stage feeds no other
};

/// The gradients that a STEP is about to use.
struct StepReport {
  std::int32_t rank = 0;
  std::int32_t stage = 0;
  std::int32_t version = 0;  ///< version that the STEP makes
  const Tensors& gradient;   ///< the reduced gradient; empty if no microbatch contributed
};

/// The settings that all stages of a run share. The functions are called from several worker threads at the
/// same time.
struct Training {
  std::function<at::Tensor(std::int32_t microbatch)> inputs;   ///< inputs of first stages
  std::function<at::Tensor(std::int32_t microbatch)> targets;  ///< targets of last stages
  OptimizerOptions optimizer;
  double loss_scale = 1;   ///< gradients are those of loss_scale times the sum of the losses
  std::uint64_t seed = 1;  ///< seed of dropout
  std::function<void(const StepReport&)> observer;  ///< may be empty
};

class TorchStage : public StageModule {
 public:
  struct Place {
    std::int32_t rank = 0;
    std::int32_t stage = 0;
    std::optional<Shard> shard;            ///< present if the program gathers the stage's weights
    std::shared_ptr<MemoryMeter> meter{};  ///< meter of the rank; may be null
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

  /// Returns the unscaled losses of the microbatches so far; empty if the stage feeds another one.
  std::map<std::int32_t, double> losses() const;
  const StageWeights& weights() const { return weights_; }
  /// Returns the number of microbatches of which data is still held.
  std::size_t held() const { return held_.size(); }
  /// Returns the bytes that the stage holds now. A tensor that several stages hold counts in each. A version
  /// that the last STEP has replaced counts as transient until it is dropped or used.
  MemoryByCategory held_bytes() const;
  const std::shared_ptr<MemoryMeter>& meter() const { return place_.meter; }

 private:
  struct Held {
    at::Tensor input;
    std::vector<std::int64_t> widths;  // widths of the inputs that were concatenated
    std::optional<Record> record;      // present between F (or R) and the last part of the backward
    at::Tensor loss_gradient;          // defined if the stage feeds no other
    std::int64_t bytes = 0;            // bytes of all members above
  };
  /// Combines the inputs into one.
  void join(Held& held, const std::vector<Payload>& inputs) const;
  /// Runs the layer on the held input, stores its record, and returns its output.
  at::Tensor activate(const ComputeCall& call, Held& held);
  /// Returns the microbatch's data. Throws std::logic_error if F, or R after a re-materialised F, has not
  /// run.
  Held& ready_for_backward(const ComputeCall& call);
  /// Updates held.bytes and the sum over all microbatches.
  void count(Held& held);
  /// Frees the data of a microbatch whose backward is complete.
  void forget(std::int32_t microbatch);
  /// Reports to the rank's meter what the stage holds after the action `what`; an empty text means no action.
  void report(std::string_view what);
  void observe(const Tensors& gradient) const;
  std::vector<Payload> given_back(const ComputeCall& call, const Held& held,
                                  const at::Tensor& of_input) const;

  StageDefinition definition_;
  std::shared_ptr<const Training> training_;
  Place place_;
  StageWeights weights_;
  std::map<std::int32_t, Held> held_;
  std::int64_t activation_bytes_ = 0;  // bytes of held_
  bool stepped_ = false;               // whether the last call was a STEP
  Tensors gradient_;                   // sum since the last REDUCE_GRAD or STEP; empty if there is none yet
  std::optional<Tensors> reduced_;     // reduced gradients since the last STEP
  Tensors observed_;                   // whole sums, for an observer of a shard's gradients
  std::map<std::int32_t, at::Tensor> losses_;
};

/// Returns a module on each rank (or on one rank) for each stage that it holds. Definitions are by stage.
StageModules torch_modules(const Program& program, const std::vector<StageDefinition>& definitions,
                           const std::shared_ptr<const Training>& training,
                           std::optional<std::int32_t> only_rank = {});

}  // namespace penstock::nn

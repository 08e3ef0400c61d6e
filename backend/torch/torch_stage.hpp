#pragma once
// Runs one stage of a model with LibTorch, as a stage module of the executor. Occupy modules
// (module_family.hpp) only take the stated time instead.

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
#include "backend/executor/stage_module.hpp"
#include "backend/executor/transport.hpp"
#include "backend/torch/layers.hpp"
#include "backend/torch/stage_weights.hpp"
#include "report/print/memory_category.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock::nn {

/// The tensors of a message between stages, or of a rank's contribution to a collective. The tensors must not
/// be changed, because other messages may share them.
struct TensorPayload : PayloadContent {
  explicit TensorPayload(Tensors content) : tensors(std::move(content)) {}
  Tensors tensors;
};

/// The method by which a stage combines the outputs of several stages into one input.
enum class Join : std::uint8_t {
  sum,
  concatenate,  // concatenates along the last dimension, in ascending order of stages
};

/// The computation of a stage, y = layer(x), where x is the join of the stage's inputs. The stage sends y
/// to each stage that reads it.
struct StageDefinition {
  LayerPointer layer;
  Tensors weights;  ///< initial weights (version 0)
  Join join = Join::sum;
  /// The loss that the stage computes if it is a last stage, which sends its output to no other stage.
  Loss loss = Loss::mean_squared_error;
};

/// The data that Training::observer receives before a STEP.
struct StepReport {
  std::int32_t rank = 0;
  std::int32_t stage = 0;
  std::int32_t version = 0;  ///< weight version that the STEP makes
  const Tensors& gradient;   ///< reduced gradient; empty if no microbatch contributed
};

/// The settings that all stages of a run share. Several worker threads may call the functions at the same
/// time.
struct Training {
  /// A function that returns the model input of a microbatch. Only first stages use it.
  std::function<at::Tensor(std::int32_t microbatch)> inputs;
  /// A function that returns the target of a microbatch. Only last stages use it.
  std::function<at::Tensor(std::int32_t microbatch)> targets;
  OptimizerOptions optimizer;
  double loss_scale = 1;   ///< factor by which the training loss is multiplied before gradients are computed
  std::uint64_t seed = 1;  ///< seed of the dropout masks
  std::function<void(const StepReport&)> observer;  ///< called before each STEP; may be empty
};

class TorchStage : public StageModule {
 public:
  struct Place {
    std::int32_t rank = 0;
    std::int32_t stage = 0;
    std::optional<Shard> shard;  ///< this rank's shard; present if the program has UNSHARDs of the stage
    std::shared_ptr<MemoryMeter> meter{};  ///< memory meter of the rank; may be null
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

  /// Returns the loss of each microbatch so far, without the factor loss_scale. Returns an empty map if the
  /// stage computes no loss, because it sends its output to another stage.
  std::map<std::int32_t, double> losses() const;
  const StageWeights& weights() const { return weights_; }
  /// Returns the number of microbatches for which the stage still stores data.
  std::size_t held() const { return held_.size(); }
  /// Returns the bytes of each category that the stage stores now. A tensor that several stages share
  /// counts in each of them. Directly after a STEP, older weight versions count as transient.
  MemoryByCategory held_bytes() const;
  const std::shared_ptr<MemoryMeter>& meter() const { return place_.meter; }

 private:
  struct Held {
    at::Tensor input;
    std::vector<std::int64_t> widths;  // widths of the concatenated inputs
    std::optional<Record> record;      // record of F or R; present until the end of the backward pass
    at::Tensor loss_gradient;          // gradient of the loss; defined if the stage sends to no other stage
    std::int64_t bytes = 0;            // bytes of all fields above
  };
  /// Combines the inputs into held.input.
  void join(Held& held, const std::vector<Payload>& inputs) const;
  /// Runs the layer on held.input, stores the layer's record, and returns its output.
  at::Tensor activate(const ComputeCall& call, Held& held);
  /// Returns the stored data of the call's microbatch. Throws std::logic_error if F has not run, or if R has
  /// not run although F stored only the input.
  Held& ready_for_backward(const ComputeCall& call);
  /// Updates held.bytes, the bytes that are stored for one microbatch. Also updates activation_bytes_, which
  /// is the sum over all microbatches.
  void count(Held& held);
  /// Frees the stored data of a microbatch. Its backward pass must be complete.
  void forget(std::int32_t microbatch);
  /// Reports the bytes that the stage now stores to the rank's memory meter. `what` is the action that has
  /// just run; an empty text means no action.
  void report(std::string_view what);
  void observe(const Tensors& gradient) const;
  std::vector<Payload> given_back(const ComputeCall& call, const Held& held,
                                  const at::Tensor& of_input) const;

  StageDefinition definition_;
  std::shared_ptr<const Training> training_;
  Place place_;
  StageWeights weights_;
  std::map<std::int32_t, Held> held_;
  std::int64_t activation_bytes_ = 0;  // bytes of all activations in held_
  bool stepped_ = false;               // true if the last call was a STEP
  Tensors gradient_;  // gradient added up since the last REDUCE_GRAD or STEP; empty if there is none
  std::optional<Tensors> reduced_;  // sum of the gradients that were reduced since the last STEP
  Tensors observed_;                // whole reduced gradients for the observer, if the stage is sharded
  std::map<std::int32_t, at::Tensor> losses_;
};

/// Returns a module for each stage that a rank holds, indexed by rank and stage. If `only_rank` is given,
/// returns only that rank's modules. `definitions` has one element for each stage.
StageModules torch_modules(const Program& program, const std::vector<StageDefinition>& definitions,
                           const std::shared_ptr<const Training>& training,
                           std::optional<std::int32_t> only_rank = {});

// Encodes tensors as bytes to send them to other processes.

/// A codec for TensorPayload. Each tensor may have at most 255 dimensions. Decoded tensors are on the CPU.
/// decode() throws if the bytes are not valid. It never allocates much more memory than `bytes` has.
class TensorCodec : public PayloadCodec {
 public:
  /// Returns the number of bytes that the tensors have when they are encoded.
  static std::size_t bytes_of(const Tensors& tensors);

  std::vector<std::uint8_t> encode(const PayloadContent& content) const override;
  Payload decode(std::span<const std::uint8_t> bytes) const override;
};

}  // namespace penstock::nn

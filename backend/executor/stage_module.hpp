#pragma once
// The interface between the executor and the code that computes one stage of the model on one rank.

#include <cstdint>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <vector>

#include "backend/executor/transport.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The choice of the tensors that a stage stores from F until the backward pass of the same microbatch.
enum class Kept : std::uint8_t {
  activations,  // all tensors that B, I and W need
  input,        // only the stage's input, because an R recomputes the rest before the backward pass
  nothing,      // no tensor, because the stage has no backward pass
};

/// The arguments of one compute action. Microbatch numbers and weight versions continue from one iteration to
/// the next.
struct ComputeCall {
  const Action& action;
  /// All actions that run as one overlapped group, including `action`. Without an overlap, this is only
  /// `action`.
  std::span<const Action> group;
  bool first_of_group = true;
  Kept kept = Kept::activations;  ///< tensors to store; used only by F
  std::size_t outputs = 0;        ///< number of payloads that the module must return; used only by F, B and I
  /// The token that requests a stop if the run has failed. The module must then return or throw soon.
  const std::stop_token& stop;
};

/// A module that runs one stage on one rank. Only the rank's worker thread calls it. A function that fails
/// throws an exception.
class StageModule {
 public:
  StageModule() = default;
  StageModule(const StageModule&) = delete;
  StageModule& operator=(const StageModule&) = delete;
  virtual ~StageModule() = default;

  /// Runs F with the weight version call.action.weight_version. `inputs` has one payload from each stage that
  /// sends activations to this one. Returns one payload for each stage that receives activations from this
  /// one. Both lists are in ascending order of stages.
  virtual std::vector<Payload> forward(const ComputeCall& call, std::vector<Payload> inputs) = 0;
  /// Runs B and adds the result to the stage's weight gradient. `gradients` has one payload from each stage
  /// that received activations from this one. Returns one payload for each stage that sent activations to
  /// this one.
  virtual std::vector<Payload> backward(const ComputeCall& call, std::vector<Payload> gradients) = 0;
  /// Runs I (gradient of the input). Takes and returns the same payloads as backward(), but does not compute
  /// the weight gradient, which W computes later.
  virtual std::vector<Payload> backward_input(const ComputeCall& call, std::vector<Payload> gradients) = 0;
  virtual void backward_weight(const ComputeCall& call) = 0;
  /// Runs R: repeats the computation of F from the stored input.
  virtual void recompute(const ComputeCall& call) = 0;
  /// Runs STEP, which computes the next weight version. It uses the gradient sum that accept() has received
  /// since the last STEP. If there was no REDUCE_GRAD, it uses the gradient that this rank has accumulated.
  virtual void step(const ComputeCall& call) = 0;
  /// Frees a weight version that no later action uses.
  virtual void drop_version(std::int32_t version) = 0;

  /// Returns this rank's contribution to a collective. For REDUCE_GRAD this is the accumulated gradient,
  /// which the module then sets to zero. For UNSHARD it is this rank's part of the weights.
  virtual Payload contribution(ActionKind collective) = 0;
  /// Receives the contributions of all members in ascending order of ranks. The module adds them up
  /// (REDUCE_GRAD) or concatenates them (UNSHARD). A transport that combines the contributions itself
  /// passes a single payload, the result. If the stage is sharded, the result of REDUCE_GRAD is only this
  /// rank's part. The parts are equal pieces of all weights concatenated, one for each member.
  virtual void accept(ActionKind collective, std::span<const SharedPayload> contributions) = 0;
  /// Runs RESHARD: drops the gathered weights.
  virtual void reshard() = 0;

  /// Runs OFFLOAD: moves the stored data of a microbatch to a buffer in the memory of the host. offload() and
  /// reload() are called only if the module's family moves activations (ModuleFamily).
  virtual void offload(std::int32_t /*microbatch*/) {
    throw std::logic_error("this module offloads nothing");
  }
  /// Runs RELOAD: moves the microbatch's bytes from the host's memory back to the module.
  virtual void reload(std::int32_t /*microbatch*/) { throw std::logic_error("this module reloads nothing"); }
};

}  // namespace penstock

#pragma once
// The interface between the executor and the mathematics: one stage of the model on one rank.

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "backend/executor/payload.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The tensors that an F stores for its backward.
enum class Kept : std::uint8_t {
  activations,  // everything that B, I and W need
  input,        // only the stage's input; an R of the same microbatch comes before the backward
};

/// The arguments of one compute action. Microbatch numbers and weight versions continue over iterations.
struct ComputeCall {
  const Action& action;
  /// The overlapped group that runs as one, including `action`. Without overlap it is only `action`.
  std::span<const Action> group;
  bool first_of_group = true;
  Kept kept = Kept::activations;  ///< valid only for F
  std::size_t outputs = 0;        ///< number of payloads to return; valid for F, B and I
  const std::stop_token& stop;    ///< a requested stop means that the run has failed: return or throw soon
};

/// One stage on one rank. All calls come from the rank's one worker thread. A failure is an exception.
class StageModule {
 public:
  StageModule() = default;
  StageModule(const StageModule&) = delete;
  StageModule& operator=(const StageModule&) = delete;
  virtual ~StageModule() = default;

  /// Runs F with the weights of call.action.weight_version. `inputs` has one payload for each stage that
  /// feeds this one, by ascending stage. Returns one output for each stage that this one feeds, by ascending
  /// stage.
  virtual std::vector<Payload> forward(const ComputeCall& call, std::vector<Payload> inputs) = 0;
  /// Runs B and adds to the stage's gradient. `gradients` has one payload for each stage that this one feeds.
  /// Returns one for each stage that feeds it.
  virtual std::vector<Payload> backward(const ComputeCall& call, std::vector<Payload> gradients) = 0;
  /// Runs I: like backward(), but leaves the stage's own gradient to W.
  virtual std::vector<Payload> backward_input(const ComputeCall& call, std::vector<Payload> gradients) = 0;
  virtual void backward_weight(const ComputeCall& call) = 0;
  /// Runs R: computes again what the F computed, from its retained input.
  virtual void recompute(const ComputeCall& call) = 0;
  /// Runs STEP: makes the next weight version from the sum that accept() received since the last STEP.
  /// Without a reduction it uses the gradient that this rank has accumulated.
  virtual void step(const ComputeCall& call) = 0;
  /// Drops a weight version that no later action uses.
  virtual void drop_version(std::int32_t version) = 0;

  /// Returns this rank's contribution to a collective. For a REDUCE_GRAD this is the accumulated gradient,
  /// which is then reset to zero. For an UNSHARD it is this rank's part of the weights.
  virtual Payload contribution(ActionKind collective) = 0;
  /// Receives the members' contributions by ascending rank, to be summed (REDUCE_GRAD) or concatenated
  /// (UNSHARD). A transport that does this itself passes one payload, the result. The result of a sharded
  /// stage's REDUCE_GRAD is only this rank's part: all weights, laid end to end, are cut into as many equal
  /// parts as there are members.
  virtual void accept(ActionKind collective, std::span<const SharedPayload> contributions) = 0;
  /// Runs RESHARD: drops the gathered weights.
  virtual void reshard() = 0;
};

}  // namespace penstock

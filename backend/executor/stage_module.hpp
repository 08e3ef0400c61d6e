#pragma once
// The seam between the executor and the mathematics: one stage of the model on one rank.

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "backend/executor/payload.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// What an F leaves behind for its backward.
enum class Kept : std::uint8_t {
  activations,  // everything that B, I and W need
  input,        // only the stage's input: an R of the same microbatch comes before the backward
};

/// One compute action as a module sees it. Microbatch numbers and weight versions run on over iterations.
struct ComputeCall {
  const Action& action;
  /// The overlapped group that runs as one, `action` included; only `action` where nothing overlaps.
  std::span<const Action> group;
  bool first_of_group = true;
  Kept kept = Kept::activations;  ///< F only
  std::size_t outputs = 0;        ///< F, B, I: how many payloads to return
  const std::stop_token& stop;    ///< a stop means that the run has failed: return or throw soon
};

/// One stage on one rank. All calls come from the rank's one worker thread; a failure is an exception.
class StageModule {
 public:
  StageModule() = default;
  StageModule(const StageModule&) = delete;
  StageModule& operator=(const StageModule&) = delete;
  virtual ~StageModule() = default;

  /// F with the weights of call.action.weight_version. `inputs`: one a stage that feeds this one, by
  /// ascending stage. Returns one output a stage that it feeds, by ascending stage.
  virtual std::vector<Payload> forward(const ComputeCall& call, std::vector<Payload> inputs) = 0;
  /// B: adds to the stage's gradient. `gradients`: one a fed stage; returns one a feeding stage.
  virtual std::vector<Payload> backward(const ComputeCall& call, std::vector<Payload> gradients) = 0;
  /// I: as B, but leaves the stage's own gradient to W.
  virtual std::vector<Payload> backward_input(const ComputeCall& call, std::vector<Payload> gradients) = 0;
  virtual void backward_weight(const ComputeCall& call) = 0;
  /// R: what its F did, from the kept input.
  virtual void recompute(const ComputeCall& call) = 0;
  /// STEP: the next weight version, from the sum that accept() brought since the last STEP, or, when there
  /// was no reduction, from the gradient that has come together here.
  virtual void step(const ComputeCall& call) = 0;
  /// No later action uses that weight version.
  virtual void drop_version(std::int32_t version) = 0;

  /// What this rank gives to the collective that it has reached. REDUCE_GRAD: the gradient that has come
  /// together, which starts again from nothing. UNSHARD: this rank's part of the weights.
  virtual Payload contribution(ActionKind collective) = 0;
  /// What the members gave, by ascending rank: to be summed (REDUCE_GRAD) or put together (UNSHARD). A
  /// transport that does this itself brings one payload, the result, and of a sharded stage's sum only this
  /// rank's part of it: of as many equal parts as there are members, all weights laid end to end.
  virtual void accept(ActionKind collective, std::span<const SharedPayload> contributions) = 0;
  /// RESHARD: drops the gathered weights.
  virtual void reshard() = 0;
};

}  // namespace penstock

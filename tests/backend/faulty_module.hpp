#pragma once
// A stage that computes nothing. Instead of one of its actions, it runs a fault.

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "backend/executor/stage_module.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A function that runs instead of an action. It may check whether the run has been stopped.
using Fault = std::function<void(const std::stop_token& stop)>;

/// Runs its fault at the n-th call of F or B, counting both.
class FaultyModule : public StageModule {
 public:
  FaultyModule(Fault fault, int at) : fault_(std::move(fault)), left_(at) {}

  std::vector<Payload> forward(const ComputeCall& call, std::vector<Payload>) override { return run(call); }
  std::vector<Payload> backward(const ComputeCall& call, std::vector<Payload>) override { return run(call); }
  std::vector<Payload> backward_input(const ComputeCall& call, std::vector<Payload>) override {
    return run(call);
  }
  void backward_weight(const ComputeCall&) override {}
  void recompute(const ComputeCall&) override {}
  void step(const ComputeCall&) override {}
  void drop_version(std::int32_t) override {}
  Payload contribution(ActionKind) override { return nullptr; }
  void accept(ActionKind, std::span<const SharedPayload>) override {}
  void reshard() override {}

 private:
  std::vector<Payload> run(const ComputeCall& call) {
    if (left_-- == 0) fault_(call.stop);
    return std::vector<Payload>(call.outputs);
  }

  Fault fault_;
  int left_;
};

}  // namespace penstock

#pragma once
// A stage that computes nothing, and does something else instead of one of its actions.

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

/// What goes wrong; it may look at whether the run has been stopped.
using Fault = std::function<void(const std::stop_token& stop)>;

/// Has its fault at the n-th F or B that it is asked for, counted over both.
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

#pragma once
// One stage of the echo model, as a module of the executor. It throws if it gets a call that no valid program
// makes.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "backend/executor/executor.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/ir/program.hpp"
#include "tests/backend/echo_model.hpp"

namespace penstock {

enum class Gathering : std::uint8_t { never_needed, needed };

class EchoModule : public StageModule {
 public:
  EchoModule(std::int32_t stage, Gathering gathering)
      : gathering_(gathering), versions_{{0, echo::first_weights(stage)}} {}

  std::vector<Payload> forward(const ComputeCall& call, std::vector<Payload> inputs) override;
  std::vector<Payload> backward(const ComputeCall& call, std::vector<Payload> gradients) override;
  std::vector<Payload> backward_input(const ComputeCall& call, std::vector<Payload> gradients) override;
  void backward_weight(const ComputeCall& call) override;
  void recompute(const ComputeCall& call) override;
  void step(const ComputeCall& call) override;
  void drop_version(std::int32_t version) override;
  Payload contribution(ActionKind collective) override;
  void accept(ActionKind collective, std::span<const SharedPayload> contributions) override;
  void reshard() override { gathered_ = false; }
  void offload(std::int32_t microbatch) override;
  void reload(std::int32_t microbatch) override;

  /// Returns the gradient of each STEP so far.
  const std::vector<echo::Weights>& steps() const { return steps_; }
  const echo::Weights& newest() const { return versions_.rbegin()->second; }
  std::size_t most_versions() const { return most_versions_; }
  /// Returns the number of microbatches for which the stage still stores activations or gradients.
  std::size_t held() const { return held_.size() + host_.size(); }
  /// Returns the output of each F that had to keep nothing, by microbatch. A program of forward passes alone
  /// has no gradients that could show whether its numbers are right.
  const std::map<std::int32_t, echo::Number>& outputs() const { return outputs_; }
  /// Returns the number of activations that have been in the buffer of the host so far.
  std::size_t offloaded() const { return offloaded_; }
  const echo::Weights& left_over() const { return gradient_; }

 private:
  struct Held {
    std::vector<echo::Number> inputs;
    std::optional<echo::Number> x;  // The activations.
    echo::Number y = 0;
    echo::Number gradient = 0;  // The gradient that is stored between I and W.
  };
  const echo::Weights& weights(const ComputeCall& call) const;
  void activate(const ComputeCall& call, Held& held) const;
  std::vector<Payload> input_gradients(const ComputeCall& call, Held& held, std::vector<Payload> gradients);
  void add_gradient(std::int32_t microbatch);

  Gathering gathering_;
  bool gathered_ = false;
  std::map<std::int32_t, echo::Weights> versions_;
  std::size_t most_versions_ = 1;
  std::map<std::int32_t, Held> held_;
  std::map<std::int32_t, echo::Number> outputs_;
  // The inputs, activation and output of each microbatch that is on the host.
  std::map<std::int32_t, std::vector<echo::Number>> host_;
  std::size_t offloaded_ = 0;
  echo::Weights gradient_;
  std::optional<echo::Weights> reduced_;
  std::vector<echo::Weights> steps_;
};

/// Converts the payloads of echo modules to bytes and back.
class EchoCodec : public PayloadCodec {
 public:
  std::vector<std::uint8_t> encode(const PayloadContent& content) const override;
  Payload decode(std::span<const std::uint8_t> bytes) const override;
};

/// Returns one module for each stage that a rank holds, indexed by rank and stage.
StageModules echo_modules(const Program& program);

/// Returns the echo module of a stage on a rank.
const EchoModule& echo_of(const StageModules& modules, std::int32_t rank, std::int32_t stage);

}  // namespace penstock

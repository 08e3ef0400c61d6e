// Runs the arithmetic of echo_model.hpp, action by action. Sums modulo 2^64 do not depend on their order, so
// each schedule must compute exactly the same numbers. A call that no valid program makes is refused: an F
// that comes twice, a B before its F or its R, weights that are not gathered, or weights that were dropped.

#include "tests/backend/echo_module.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backend/executor/executor.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "tests/backend/echo_model.hpp"

namespace penstock {
namespace {

using echo::Weights;

struct NumberPayload : PayloadContent {
  explicit NumberPayload(echo::Number n) : value(n) {}
  echo::Number value;
};

struct WeightsPayload : PayloadContent {
  explicit WeightsPayload(const Weights& w) : value(w) {}
  Weights value;
};

std::vector<echo::Number> numbers_of(const std::vector<Payload>& payloads) {
  std::vector<echo::Number> numbers;
  for (const Payload& payload : payloads) {
    numbers.push_back(dynamic_cast<const NumberPayload&>(*payload).value);
  }
  return numbers;
}

/// Returns Gathering::needed if the first action of the stage on the rank is an UNSHARD.
Gathering gathering_of(const Program& program, std::int32_t rank, std::int32_t stage) {
  for (const Action& action : program.ranks[static_cast<std::size_t>(rank)]) {
    if (action.stage != stage || is_transfer(action.kind)) continue;
    return action.kind == ActionKind::unshard ? Gathering::needed : Gathering::never_needed;
  }
  return Gathering::never_needed;
}

[[noreturn]] void refuse(const ComputeCall& call, const std::string& why) {
  throw std::logic_error(to_text(call.action) + ": " + why);
}

}  // namespace

const Weights& EchoModule::weights(const ComputeCall& call) const {
  if (gathering_ == Gathering::needed && !gathered_) refuse(call, "the weights are not gathered");
  const auto found = versions_.find(call.action.weight_version);
  if (found == versions_.end()) {
    refuse(call, "weight version " + std::to_string(call.action.weight_version) + " is not held");
  }
  return found->second;
}

void EchoModule::activate(const ComputeCall& call, Held& held) const {
  echo::Number x = 0;
  for (std::size_t i = 0; i < held.inputs.size(); ++i) x += echo::factor(i) * held.inputs[i];
  held.x = held.inputs.empty() ? echo::input(call.action.microbatch) : x;
  held.y = weights(call).a * *held.x + weights(call).b;
}

std::vector<Payload> EchoModule::forward(const ComputeCall& call, std::vector<Payload> inputs) {
  const auto [entry, fresh] = held_.try_emplace(call.action.microbatch);
  if (!fresh) refuse(call, "runs twice");
  Held& held = entry->second;
  held.inputs = numbers_of(inputs);
  activate(call, held);
  std::vector<Payload> outputs;
  for (std::size_t i = 0; i < call.outputs; ++i) outputs.push_back(std::make_unique<NumberPayload>(held.y));
  if (call.kept == Kept::input) {
    held.x.reset();
    held.y = 0;
  }
  if (call.kept == Kept::nothing) {
    outputs_[call.action.microbatch] = held.y;
    held_.erase(call.action.microbatch);
  }
  return outputs;
}

void EchoModule::recompute(const ComputeCall& call) {
  Held& held = held_.at(call.action.microbatch);
  if (held.x) refuse(call, "the activations are there already");
  activate(call, held);
}

std::vector<Payload> EchoModule::input_gradients(const ComputeCall& call, Held& held,
                                                 std::vector<Payload> gradients) {
  if (!held.x) refuse(call, "its activations have not been recomputed");
  echo::Number g = gradients.empty() ? held.y - echo::target(call.action.microbatch) : 0;
  for (const echo::Number gradient : numbers_of(gradients)) g += gradient;
  held.gradient = g;
  std::vector<Payload> outputs;
  for (std::size_t i = 0; i < call.outputs; ++i) {
    outputs.push_back(std::make_unique<NumberPayload>(echo::factor(i) * weights(call).a * g));
  }
  return outputs;
}

void EchoModule::add_gradient(std::int32_t microbatch) {
  const auto held = held_.extract(microbatch);
  const echo::Number g = held.mapped().gradient;
  gradient_ += {g * *held.mapped().x, g};
}

std::vector<Payload> EchoModule::backward(const ComputeCall& call, std::vector<Payload> gradients) {
  auto outputs = input_gradients(call, held_.at(call.action.microbatch), std::move(gradients));
  add_gradient(call.action.microbatch);
  return outputs;
}

std::vector<Payload> EchoModule::backward_input(const ComputeCall& call, std::vector<Payload> gradients) {
  return input_gradients(call, held_.at(call.action.microbatch), std::move(gradients));
}

void EchoModule::backward_weight(const ComputeCall& call) {
  weights(call);
  if (!held_.contains(call.action.microbatch)) refuse(call, "nothing is held of its microbatch");
  add_gradient(call.action.microbatch);
}

void EchoModule::step(const ComputeCall&) {
  const Weights gradient = reduced_ ? *std::exchange(reduced_, {}) : std::exchange(gradient_, {});
  steps_.push_back(gradient);
  const auto [version, weights] = *versions_.rbegin();
  Weights next = weights;
  next -= gradient;
  versions_[version + 1] = next;
  most_versions_ = std::max(most_versions_, versions_.size());
}

void EchoModule::drop_version(std::int32_t version) {
  if (versions_.erase(version) != 1) throw std::logic_error("dropped a version that is not held");
}

Payload EchoModule::contribution(ActionKind collective) {
  if (collective == ActionKind::unshard) return std::make_unique<WeightsPayload>(newest());
  return std::make_unique<WeightsPayload>(std::exchange(gradient_, {}));
}

void EchoModule::accept(ActionKind collective, std::span<const SharedPayload> contributions) {
  Weights sum;
  for (const SharedPayload& contribution : contributions) {
    sum += dynamic_cast<const WeightsPayload&>(*contribution).value;
  }
  if (collective == ActionKind::unshard) {
    gathered_ = true;
  } else if (reduced_) {
    *reduced_ += sum;
  } else {
    reduced_ = sum;
  }
}

void EchoModule::offload(std::int32_t microbatch) {
  const auto moved = held_.extract(microbatch);
  if (moved.empty() || !moved.mapped().x) throw std::logic_error("no activation to offload");
  const Held& held = moved.mapped();
  std::vector<echo::Number>& buffer = host_[microbatch] = {*held.x, held.y};
  buffer.insert(buffer.end(), held.inputs.begin(), held.inputs.end());
  ++offloaded_;
}

void EchoModule::reload(std::int32_t microbatch) {
  const auto moved = host_.extract(microbatch);
  if (moved.empty()) throw std::logic_error("no activation to reload");
  const std::vector<echo::Number>& buffer = moved.mapped();
  held_[microbatch] = {.inputs = {buffer.begin() + 2, buffer.end()}, .x = buffer[0], .y = buffer[1]};
}

std::vector<std::uint8_t> EchoCodec::encode(const PayloadContent& content) const {
  std::vector<std::uint8_t> bytes;
  const auto add = [&](echo::Number number) {
    for (int shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<std::uint8_t>(number >> shift));
  };
  if (const auto* number = dynamic_cast<const NumberPayload*>(&content)) {
    add(number->value);
  } else {
    const auto& weights = dynamic_cast<const WeightsPayload&>(content).value;
    add(weights.a);
    add(weights.b);
  }
  return bytes;
}

Payload EchoCodec::decode(std::span<const std::uint8_t> bytes) const {
  const auto number_at = [&](std::size_t begin) {
    echo::Number number = 0;
    for (std::size_t i = 8; i-- > 0;) number = number << 8 | bytes[begin + i];
    return number;
  };
  if (bytes.size() == 8) return std::make_unique<NumberPayload>(number_at(0));
  if (bytes.size() != 16) throw std::runtime_error("not a payload of the echo model");
  return std::make_unique<WeightsPayload>(Weights{number_at(0), number_at(8)});
}

StageModules echo_modules(const Program& program) {
  StageModules modules(static_cast<std::size_t>(program.rank_count()));
  for (auto& of_rank : modules) of_rank.resize(static_cast<std::size_t>(program.stage_count()));
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    for (const std::int32_t rank : program.placement.stages[static_cast<std::size_t>(stage)].ranks) {
      modules[static_cast<std::size_t>(rank)][static_cast<std::size_t>(stage)] =
          std::make_unique<EchoModule>(stage, gathering_of(program, rank, stage));
    }
  }
  return modules;
}

const EchoModule& echo_of(const StageModules& modules, std::int32_t rank, std::int32_t stage) {
  return dynamic_cast<const EchoModule&>(
      *modules[static_cast<std::size_t>(rank)][static_cast<std::size_t>(stage)]);
}

}  // namespace penstock

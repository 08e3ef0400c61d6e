// Runs the actions of one stage with tensors. No autograd graph connects two actions:
//
//     F   y = f(x; w of its version), stores what the backward needs
//     I   gradient of x from that of y        W   gradient of w, added to the sum of the minibatch
//     B   both at once                        R   F again, storing what F with re-materialisation did not
//     STEP   w of the next version = optimizer(w, sum)
//
// The gradients of a minibatch are added up from its first W on. The next STEP, or the REDUCE_GRAD before it,
// uses and removes the sum. Memory is measured after each action (stage_weights.hpp). Tests:
// tests/backend_torch/torch_stage_test.cpp.

#include "backend/torch/torch_stage.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <c10/util/Exception.h>

#include "backend/executor/executor.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/executor/transport.hpp"
#include "backend/torch/layers.hpp"
#include "backend/torch/stage_weights.hpp"
#include "report/print/memory_category.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock::nn {
namespace {

const Tensors& content(const PayloadContent& payload) {
  return dynamic_cast<const TensorPayload&>(payload).tensors;
}

const at::Tensor& tensor(const Payload& payload) { return content(*payload).front(); }

Payload payload_of(at::Tensor value) { return std::make_unique<TensorPayload>(Tensors{std::move(value)}); }

/// Returns the sum of the payloads' tensors in a new tensor. A received tensor may belong to other messages
/// as well, so it must not be changed.
at::Tensor sum(const std::vector<Payload>& payloads) {
  at::Tensor total = tensor(payloads.front());
  for (std::size_t i = 1; i < payloads.size(); ++i) total = total.add(tensor(payloads[i]));
  return total;
}

/// Adds `more` to `sums` in place and returns the result. No other object may use the tensors of `sums`. If
/// `sums` is empty, returns `more` without a copy.
Tensors added(Tensors sums, Tensors more) {
  if (sums.empty()) return more;
  for (std::size_t i = 0; i < more.size(); ++i) sums[i].add_(more[i]);
  return sums;
}

Tensors copied(const Tensors& tensors) {
  Tensors copies;
  copies.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

/// Returns the sum of the members' contributions to a reduction. A member that ran no microbatch of the
/// minibatch has an empty contribution, which is skipped.
Tensors added_up(std::span<const SharedPayload> contributions) {
  Tensors sums;
  for (const SharedPayload& contribution : contributions) {
    const Tensors& given = content(*contribution);
    // The first contribution is cloned, because it belongs to another member and the sum is computed in
    // place.
    if (sums.empty()) {
      for (const at::Tensor& part : given) sums.push_back(part.clone());
    } else if (!given.empty()) {
      sums = added(std::move(sums), given);
    }
  }
  return sums;
}

/// Runs `compute` with LibTorch's gradient mode off, and removes the backtrace from LibTorch's errors.
template <class Compute>
auto plainly(Compute compute) {
  const at::NoGradGuard no_grad;
  try {
    return compute();
  } catch (const c10::Error& error) {
    throw std::runtime_error(error.what_without_backtrace());
  }
}

/// Throws std::logic_error for a call that no valid program makes. `why` is the reason in the message.
[[noreturn]] void refuse(const ComputeCall& call, const std::string& why) {
  throw std::logic_error(to_text(call.action) + ": " + why);
}

}  // namespace

TorchStage::TorchStage(StageDefinition definition, std::shared_ptr<const Training> training, Place place)
    : definition_(std::move(definition)),
      training_(std::move(training)),
      place_(std::move(place)),
      weights_(std::exchange(definition_.weights, {}), training_->optimizer, place_.shard) {
  report("");
}

// --- F and R --------------------------------------------------------------------------------------------

void TorchStage::join(Held& held, const std::vector<Payload>& inputs) const {
  if (definition_.join == Join::sum || inputs.size() == 1) {
    held.input = sum(inputs);
    return;
  }
  Tensors parts;
  parts.reserve(inputs.size());
  for (const Payload& input : inputs) {
    parts.push_back(tensor(input));
    held.widths.push_back(tensor(input).size(-1));
  }
  held.input = at::cat(parts, -1);
}

at::Tensor TorchStage::activate(const ComputeCall& call, Held& held) {
  // The seed depends only on the microbatch. So when R repeats F, dropout sets the same values to 0.
  const std::uint64_t seed =
      mixed(training_->seed ^ mixed(static_cast<std::uint64_t>(call.action.microbatch)));
  auto [value, record] =
      definition_.layer->forward(weights_.of(call.action.weight_version), held.input, seed);
  held.record = std::move(record);
  return value;
}

std::vector<Payload> TorchStage::forward(const ComputeCall& call, std::vector<Payload> inputs) {
  return plainly([&] {
    const std::int32_t microbatch = call.action.microbatch;
    const auto [entry, fresh] = held_.try_emplace(microbatch);
    if (!fresh) refuse(call, "runs twice");
    Held& held = entry->second;
    if (inputs.empty()) {
      held.input = training_->inputs(microbatch);
    } else {
      join(held, inputs);
    }
    const at::Tensor output = activate(call, held);
    if (call.outputs == 0) {
      auto [value, gradient] = loss_of(definition_.loss, output, training_->targets(microbatch));
      // The value of the loss stays on the device. If the host read it here, the host would have to wait for
      // the device.
      losses_[microbatch] = value;
      held.loss_gradient = gradient.mul(training_->loss_scale);
    }
    // If only the input is stored, R will compute the record again.
    if (call.kept == Kept::input) held.record.reset();
    count(held);
    std::vector<Payload> outputs;
    outputs.reserve(call.outputs);
    for (std::size_t i = 0; i < call.outputs; ++i) outputs.push_back(payload_of(output));
    report(to_text(call.action));
    if (call.kept == Kept::nothing) {
      forget(microbatch);
      report("");
    }
    return outputs;
  });
}

void TorchStage::recompute(const ComputeCall& call) {
  plainly([&] {
    Held& held = held_.at(call.action.microbatch);
    if (held.record) refuse(call, "the activations are there already");
    activate(call, held);
    count(held);
    report(to_text(call.action));
  });
}

// --- B, I and W -----------------------------------------------------------------------------------------

TorchStage::Held& TorchStage::ready_for_backward(const ComputeCall& call) {
  const auto found = held_.find(call.action.microbatch);
  if (found == held_.end()) refuse(call, "nothing is held of its microbatch");
  if (!found->second.record) refuse(call, "its activations have not been recomputed");
  return found->second;
}

/// Returns the gradients that go to previous stages: for each stage that sent an activation to this one,
/// the gradient of that activation.
std::vector<Payload> TorchStage::given_back(const ComputeCall& call, const Held& held,
                                            const at::Tensor& of_input) const {
  std::vector<Payload> outputs;
  outputs.reserve(call.outputs);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < call.outputs; ++i) {
    if (held.widths.empty()) {
      outputs.push_back(payload_of(of_input));
    } else {
      outputs.push_back(payload_of(of_input.narrow(-1, begin, held.widths[i]).contiguous()));
      begin += held.widths[i];
    }
  }
  return outputs;
}

std::vector<Payload> TorchStage::backward(const ComputeCall& call, std::vector<Payload> gradients) {
  return plainly([&] {
    Held& held = ready_for_backward(call);
    auto [of_input, of_weights] = definition_.layer->backward(
        weights_.of(call.action.weight_version), gradients.empty() ? held.loss_gradient : sum(gradients),
        *std::move(held.record));
    gradient_ = added(std::move(gradient_), std::move(of_weights));
    std::vector<Payload> outputs = given_back(call, held, of_input);
    forget(call.action.microbatch);
    report(to_text(call.action));
    return outputs;
  });
}

std::vector<Payload> TorchStage::backward_input(const ComputeCall& call, std::vector<Payload> gradients) {
  return plainly([&] {
    Held& held = ready_for_backward(call);
    auto [of_input, record] = definition_.layer->backward_input(
        weights_.of(call.action.weight_version), gradients.empty() ? held.loss_gradient : sum(gradients),
        *std::move(held.record));
    held.record = std::move(record);
    // W needs only the layer's record, so I frees the other data.
    held.input.reset();
    held.loss_gradient.reset();
    count(held);
    report(to_text(call.action));
    return given_back(call, held, of_input);
  });
}

void TorchStage::backward_weight(const ComputeCall& call) {
  plainly([&] {
    const Held& held = ready_for_backward(call);
    gradient_ = added(std::move(gradient_), definition_.layer->backward_weight(
                                                weights_.of(call.action.weight_version), *held.record));
    forget(call.action.microbatch);
    report(to_text(call.action));
  });
}

// --- STEP and collectives -------------------------------------------------------------------------------

void TorchStage::step(const ComputeCall& call) {
  plainly([&] {
    if (place_.shard) {
      if (!observed_.empty()) observe(std::exchange(observed_, {}));
      // A rank without a gradient also makes a STEP, so that all ranks have the same weight version.
      weights_.step(reduced_ ? *std::exchange(reduced_, {}) : Tensors());
    } else {
      const Tensors gradient = reduced_ ? *std::exchange(reduced_, {}) : std::exchange(gradient_, {});
      observe(gradient);
      weights_.step(gradient);
    }
    stepped_ = true;
    report(to_text(call.action));
  });
}

/// Passes the gradients that the next STEP uses to the observer, if there is one. The observer gets the
/// gradients of all weights, even if the rank stores only a part of them.
void TorchStage::observe(const Tensors& gradient) const {
  if (!training_->observer) return;
  training_->observer(
      {.rank = place_.rank, .stage = place_.stage, .version = weights_.newest() + 1, .gradient = gradient});
}

void TorchStage::drop_version(std::int32_t version) {
  weights_.drop(version);
  report("");
}

void TorchStage::reshard() {
  weights_.release();
  report("");
}

Payload TorchStage::contribution(ActionKind collective) {
  return plainly([&] {
    return std::make_unique<TensorPayload>(collective == ActionKind::unshard ? weights_.part()
                                                                             : std::exchange(gradient_, {}));
  });
}

void TorchStage::accept(ActionKind collective, std::span<const SharedPayload> contributions) {
  plainly([&] {
    if (collective == ActionKind::unshard) {
      Tensors parts;
      for (const SharedPayload& contribution : contributions) {
        for (const at::Tensor& part : content(*contribution)) parts.push_back(part);
      }
      weights_.gather(parts);
      report("UNSHARD");
      return;
    }
    // Every member adds the contributions in ascending order of ranks, so that all members get exactly the
    // same sum.
    Tensors sums = added_up(contributions);
    if (place_.shard) {
      if (training_->observer) observed_ = added(std::move(observed_), copied(sums));
      sums = weights_.needed_part(std::move(sums));
    }
    reduced_ = reduced_ ? added(*std::move(reduced_), std::move(sums)) : std::move(sums);
    report("REDUCE_GRAD");
  });
}

// --- memory ---------------------------------------------------------------------------------------------

void TorchStage::count(Held& held) {
  // Several tensors may share a storage, and storage_bytes() counts each storage once.
  activation_bytes_ -= held.bytes;
  held.bytes = storage_bytes(held.record.value_or(Record{}), {held.input, held.loss_gradient});
  activation_bytes_ += held.bytes;
}

void TorchStage::forget(std::int32_t microbatch) {
  const auto found = held_.find(microbatch);
  activation_bytes_ -= found->second.bytes;
  held_.erase(found);
}

MemoryByCategory TorchStage::held_bytes() const {
  const StageWeights::Held weights = weights_.held_bytes();
  MemoryByCategory bytes{};
  const auto of = [&](MemoryCategory category) -> Bytes& {
    return bytes[static_cast<std::size_t>(category)];
  };
  of(MemoryCategory::weights) = weights.newest;
  // Directly after a STEP, an older weight version may exist that will be freed at once. It therefore counts
  // as transient. At other times, older versions are stored because later actions need them.
  of(stepped_ ? MemoryCategory::transient : MemoryCategory::weight_versions) = weights.older;
  of(MemoryCategory::optimizer_state) = weights.optimizer_state;
  of(MemoryCategory::gradients) = storage_bytes({.tensors = gradient_}, reduced_.value_or(Tensors()));
  of(MemoryCategory::activations) = activation_bytes_;
  return bytes;
}

void TorchStage::report(std::string_view what) {
  if (place_.meter) place_.meter->set(place_.stage, held_bytes(), std::string(what));
  stepped_ = false;
}

// --- results --------------------------------------------------------------------------------------------

std::map<std::int32_t, double> TorchStage::losses() const {
  std::map<std::int32_t, double> values;
  for (const auto& [microbatch, loss] : losses_) values[microbatch] = loss.item().toDouble();
  return values;
}

namespace {

/// Returns true if the rank's list has an UNSHARD of the stage. In this case the rank has a shard: a part
/// of the optimizer state, or also of gradients or weights.
bool gathers(const Program& program, std::int32_t rank, std::int32_t stage) {
  for (const Action& action : program.ranks[index(rank)]) {
    if (action.kind == ActionKind::unshard && action.stage == stage) return true;
  }
  return false;
}

/// Returns which data are sharded: optimizer state, gradients or weights. A program with PyTorch's FSDP
/// gathers weights but states no ZeRO stage. In this case the weights are sharded.
Sharded sharded_in(const Program& program) {
  if (program.sharding == 1) return Sharded::optimizer;
  return program.sharding == 2 ? Sharded::gradients : Sharded::weights;
}

}  // namespace

StageModules torch_modules(const Program& program, const std::vector<StageDefinition>& definitions,
                           const std::shared_ptr<const Training>& training,
                           std::optional<std::int32_t> only_rank) {
  std::vector<std::shared_ptr<MemoryMeter>> meters(index(program.rank_count()));
  for (auto& meter : meters) meter = std::make_shared<MemoryMeter>();
  StageModules modules(index(program.rank_count()));
  for (auto& of_rank : modules) of_rank.resize(index(program.stage_count()));
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    const std::vector<std::int32_t>& ranks = program.placement.stages[index(stage)].ranks;
    for (const std::int32_t rank : ranks) {
      if (only_rank && rank != *only_rank) continue;
      TorchStage::Place place{.rank = rank, .stage = stage, .shard = {}, .meter = meters[index(rank)]};
      if (gathers(program, rank, stage)) {
        // Parts are gathered in ascending order of ranks. The index of a member is therefore the number of
        // members with a lower rank.
        const auto position = std::ranges::count_if(ranks, [&](std::int32_t r) { return r < rank; });
        place.shard = {.index = static_cast<std::int32_t>(position),
                       .count = static_cast<std::int32_t>(ranks.size()),
                       .what = sharded_in(program)};
      }
      modules[index(rank)][index(stage)] =
          std::make_unique<TorchStage>(definitions[index(stage)], training, place);
    }
  }
  return modules;
}

}  // namespace penstock::nn

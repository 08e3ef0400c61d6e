// Stores the versions of one stage's weights. A STEP makes a new version. Older versions are stored as long
// as actions still use them (weight stashing, PipeDream, section 3.3). With a shard, all weights are
// concatenated and padded with zeros, and a rank has one of `count` equal parts (ZeRO, SC'20, section 5):
//
//     [ w0 | w1     | w2 ]   ->   [ part 0 | part 1 | part 2 0 0 ]
//
// The rank updates only its part. gather() combines the parts of all members. Tests:
// tests/backend_torch/torch_stage_test.cpp.

#include "backend/torch/stage_weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "backend/torch/layers.hpp"
#include "report/print/memory_category.hpp"
#include "schedules/ir/action.hpp"

namespace penstock::nn {

namespace {

at::Tensor laid_end_to_end(const Tensors& tensors) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.reshape(-1));
  return at::cat(flat);
}

/// Returns tensors with the shapes of `tensors` on LibTorch's meta device. Tensors on this device use no
/// memory.
Tensors without_storage(const Tensors& tensors) {
  Tensors shapes;
  for (const at::Tensor& tensor : tensors) {
    shapes.push_back(at::empty_like(tensor, tensor.options().device(at::kMeta)));
  }
  return shapes;
}

Tensors zeros_like_all(const Tensors& tensors) {
  Tensors zeros;
  for (const at::Tensor& tensor : tensors) zeros.push_back(tensor.mul(0));
  return zeros;
}

}  // namespace

StageWeights::StageWeights(const Tensors& initial, const OptimizerOptions& optimizer,
                           const std::optional<Shard>& shard)
    : optimizer_(optimizer), shard_(shard), like_(without_storage(initial)) {
  versions_[0] = keeps_part_of(Sharded::weights) ? own_part(initial) : initial;
  count();
}

Tensors StageWeights::own_part(const Tensors& whole) const {
  if (whole.empty()) return whole;
  const at::Tensor flat = laid_end_to_end(whole);
  const std::int64_t length = (flat.numel() + shard_->count - 1) / shard_->count;
  const at::Tensor filled = at::constant_pad_nd(flat, {0, length * shard_->count - flat.numel()});
  // The part is cloned, because a view would prevent the whole tensor from being freed.
  return {filled.narrow(0, shard_->index * length, length).clone()};
}

Tensors StageWeights::whole_of(const at::Tensor& flat) const {
  Tensors whole;
  std::int64_t begin = 0;
  for (const at::Tensor& shape : like_) {
    whole.push_back(flat.narrow(0, begin, shape.numel()).view(shape.sizes()));
    begin += shape.numel();
  }
  return whole;
}

/// Returns all weights of the stage in one tensor, with this rank's part replaced by `part`.
Tensors StageWeights::with_own_part(const Tensors& whole, const at::Tensor& part) const {
  const at::Tensor flat = laid_end_to_end(whole);
  const std::int64_t begin = std::min(shard_->index * part.numel(), flat.numel());
  const std::int64_t length = std::min(part.numel(), flat.numel() - begin);
  // `flat` is a copy, so the earlier version does not change.
  flat.narrow(0, begin, length).copy_(part.narrow(0, 0, length));
  return whole_of(flat);
}

Tensors StageWeights::needed_part(Tensors gradient) const {
  return keeps_part_of(Sharded::gradients) ? own_part(gradient) : std::move(gradient);
}

void StageWeights::count() {
  held_ = {.optimizer_state = optimizer_.bytes()};
  for (const auto& [version, weights] : versions_)
    (version == newest() ? held_.newest : held_.older) += storage_bytes({.tensors = weights});
  if (gathered_) held_.newest += storage_bytes({.tensors = gathered_->weights});
}

void StageWeights::release() {
  gathered_.reset();
  count();
}

Weights StageWeights::of(std::int32_t version) const {
  if (keeps_part_of(Sharded::weights)) {
    if (gathered_ && gathered_->version == version) return gathered_->weights;
    throw std::logic_error("weight version " + std::to_string(version) + " is not gathered");
  }
  const auto found = versions_.find(version);
  if (found == versions_.end())
    throw std::logic_error("weight version " + std::to_string(version) + " is not held");
  return found->second;
}

void StageWeights::step(const Tensors& gradient) {
  const auto& [version, weights] = *versions_.rbegin();
  const bool gives_part = shard_ && !keeps_part_of(Sharded::gradients);
  const Tensors own_gradient = gives_part ? own_part(gradient) : gradient;
  const bool has_whole = updates_part_of_whole();
  const Tensors own = has_whole ? own_part(weights) : weights;
  // A replica that has run no microbatch has no gradient, so its STEP uses zeros.
  Tensors next = optimizer_.step(own, own_gradient.empty() ? zeros_like_all(own) : own_gradient);
  versions_[version + 1] =
      has_whole && !next.empty() ? with_own_part(weights, next.front()) : std::move(next);
  count();
}

void StageWeights::drop(std::int32_t version) {
  if (versions_.erase(version) != 1) throw std::logic_error("dropped a weight version that is not held");
  count();
}

Tensors StageWeights::part() {
  parting_version_ = newest();
  const Tensors& kept = versions_.rbegin()->second;
  return updates_part_of_whole() ? own_part(kept) : kept;
}

void StageWeights::gather(std::span<const at::Tensor> parts) {
  Tensors whole = parts.empty() ? Tensors() : whole_of(at::cat(std::vector(parts.begin(), parts.end())));
  if (updates_part_of_whole()) {
    // The stored version still has old values in the parts of the other members, so it is replaced.
    versions_[parting_version_] = std::move(whole);
  } else {
    gathered_ = {.version = parting_version_, .weights = std::move(whole)};
  }
  count();
}

// Computes w' = w - rate * direction. g is the gradient, t the number of the step. The direction is:
//
//     SGD      b = momentum b + g                    (b = g at first; b = g without momentum)
//     RMSProp  s = decay s + (1 - decay) g^2,   b = momentum b + g / (sqrt(s) + epsilon)
//     Adam     m = beta1 m + (1 - beta1) g,     s = beta2 s + (1 - beta2) g^2,
//              m / (1 - beta1^t) / (sqrt(s / (1 - beta2^t)) + epsilon)      (Kingma and Ba, ICLR'15)
//
// Tests: tests/backend_torch/learning_test.cpp.

namespace {

/// Returns the moving average after one more value: decay * mean + (1 - decay) * value. An undefined mean
/// counts as 0.
at::Tensor moved_mean(const at::Tensor& mean, double decay, const at::Tensor& value) {
  const at::Tensor share = value.mul(1 - decay);
  return mean.defined() ? mean.mul(decay).add(share) : share;
}

}  // namespace

at::Tensor Optimizer::with_momentum(Moments& moments, const at::Tensor& direction) const {
  if (options_.momentum == 0) return direction;
  moments.first = moments.first.defined() ? moments.first.mul(options_.momentum).add(direction) : direction;
  return moments.first;
}

at::Tensor Optimizer::direction(Moments& moments, const at::Tensor& gradient) const {
  switch (options_.kind) {
    case OptimizerKind::sgd:
      break;
    case OptimizerKind::rmsprop:
      moments.second = moved_mean(moments.second, options_.decay, gradient.square());
      return with_momentum(moments, gradient.div(moments.second.sqrt().add(options_.epsilon)));
    case OptimizerKind::adam: {
      // Both means begin at 0, so at first they are too small. After t steps, the factor is 1 - beta^t, and
      // they are divided by it.
      const auto t = static_cast<double>(steps_);
      moments.first = moved_mean(moments.first, options_.beta1, gradient);
      moments.second = moved_mean(moments.second, options_.beta2, gradient.square());
      const at::Tensor squares = moments.second.div(1 - std::pow(options_.beta2, t));
      return moments.first.div(1 - std::pow(options_.beta1, t)).div(squares.sqrt().add(options_.epsilon));
    }
  }
  return with_momentum(moments, gradient);
}

Tensors Optimizer::step(const Tensors& weights, const Tensors& gradient) {
  if (weights.size() != gradient.size()) throw std::logic_error("a gradient is missing, or one is too many");
  // The step is counted first, because Adam divides by 1 - beta^t, which is 0 at t = 0.
  ++steps_;
  moments_.resize(weights.size());
  Tensors next;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    next.push_back(weights[i].sub(direction(moments_[i], gradient[i]).mul(options_.learning_rate)));
  }
  return next;
}

std::int64_t Optimizer::bytes() const {
  std::int64_t sum = 0;
  for (const Moments& moments : moments_) {
    for (const at::Tensor* moment : {&moments.first, &moments.second}) {
      if (moment->defined()) sum += static_cast<std::int64_t>(moment->nbytes());
    }
  }
  return sum;
}

// Measures memory at the same moments and by the same rules as the simulator. After each action, the stage
// reports its bytes. The meter adds up all stages of the rank. It stores the peak and the action at which the
// peak was reached.

void MemoryMeter::set(std::int32_t stage, const MemoryByCategory& bytes, const std::string& action) {
  MemoryByCategory& before = of_stage_[stage];
  for (std::size_t i = 0; i < sum_.size(); ++i) {
    sum_[i] += bytes[i] - before[i];
    memory_.peaks[i] = std::max(memory_.peaks[i], sum_[i]);
  }
  before = bytes;
  const Bytes total = total_bytes(sum_);
  // If several actions reach the peak, the first one is named, as in a prediction.
  if (total <= memory_.peak_bytes) return;
  memory_.peak_bytes = total;
  memory_.peak_action = action;
  memory_.at_peak = sum_;
}

}  // namespace penstock::nn

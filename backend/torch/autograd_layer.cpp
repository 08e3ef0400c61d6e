// Makes a layer from a torch::nn::Module. A module owns its parameters, but a layer gets its weights as
// arguments. Each microbatch in flight therefore has a copy of the module (a replica). The parameters of
// the replica are set to the microbatch's weight version before the autograd graph is made. They must not
// change while the graph exists, because autograd would use the new values without an error. When the
// graph is destroyed, another microbatch can use the replica.

#include "backend/torch/layers.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>

namespace penstock::nn {
namespace {

/// A copy of the module (replica) with its own parameters. Each microbatch in flight uses one replica.
struct Replica {
  explicit Replica(WrappedModule made) : wrapped(std::move(made)), parameters(wrapped.module->parameters()) {}
  WrappedModule wrapped;
  Tensors parameters;
};

/// The replicas of the module that no microbatch uses at present.
class Pool {
 public:
  std::unique_ptr<Replica> take(const ModuleFactory& make) {
    {
      const std::scoped_lock lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Replica> replica = std::move(idle_.back());
        idle_.pop_back();
        return replica;
      }
    }
    return std::make_unique<Replica>(make());
  }
  void put(std::unique_ptr<Replica> replica) {
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(replica));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Replica>> idle_;
};

/// The autograd graph of one microbatch. Its destructor returns the replica of the module to the pool.
class Graph {
 public:
  Graph(std::shared_ptr<Pool> pool, std::unique_ptr<Replica> replica, Weights weights,
        const at::Tensor& input)
      : pool_(std::move(pool)), replica_(std::move(replica)), input_(input.detach()) {
    for (std::size_t i = 0; i < weights.size(); ++i) replica_->parameters[i].set_data(weights[i]);
    const c10::AutoGradMode with_gradients(true);
    if (input_.is_floating_point()) input_.requires_grad_(true);
    output_ = replica_->wrapped.forward(input_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    // The graph refers to the parameters of the replica. Another microbatch will change these parameters, so
    // the graph is destroyed before the replica goes back to the pool.
    output_.reset();
    input_.reset();
    pool_->put(std::move(replica_));
  }

  /// Returns the output without its autograd graph. Otherwise the stage that receives the output would keep
  /// the graph in memory.
  at::Tensor output() const { return output_.detach(); }

  at::Tensor of_input(const at::Tensor& gradient) const {
    if (!input_.requires_grad()) return {};
    // The graph is retained, because W needs it as well.
    return torch::autograd::grad({output_}, {input_}, {gradient}, /*retain_graph=*/true).front();
  }

  Tensors of_weights(const at::Tensor& gradient) const {
    return owned(differentiated(replica_->parameters, gradient));
  }

  Gradients of_all(const at::Tensor& gradient) const {
    Tensors arguments = replica_->parameters;
    if (input_.requires_grad()) arguments.push_back(input_);
    Tensors weights = differentiated(arguments, gradient);
    at::Tensor of_input;
    if (input_.requires_grad()) {
      of_input = weights.back();
      weights.pop_back();
    }
    return {std::move(of_input), owned(std::move(weights))};
  }

 private:
  /// Returns the gradients of `arguments`, computed from the gradient of the output, and frees the graph's
  /// data. If an argument does not affect the output, its gradient is an undefined tensor.
  Tensors differentiated(const Tensors& arguments, const at::Tensor& gradient) const {
    return torch::autograd::grad({output_}, arguments, {gradient}, /*retain_graph=*/false,
                                 /*create_graph=*/false, /*allow_unused=*/true);
  }

  /// Returns gradients whose memory no other object uses, by copying them where necessary. autograd may
  /// return a tensor that is also used in other places. For example, an identity returns the gradient of
  /// its output.
  Tensors owned(Tensors gradients) const {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      gradients[i] = gradients[i].defined() ? gradients[i].clone() : at::zeros_like(replica_->parameters[i]);
    }
    return gradients;
  }

  std::shared_ptr<Pool> pool_;
  std::unique_ptr<Replica> replica_;
  at::Tensor input_;
  at::Tensor output_;
};

class AutogradLayer : public Layer {
 public:
  explicit AutogradLayer(ModuleFactory make) : make_(std::move(make)), pool_(std::make_shared<Pool>()) {
    std::unique_ptr<Replica> first = pool_->take(make_);
    for (const at::Tensor& parameter : first->parameters) {
      // The values are copied, because the parameters will later be set to other weights.
      initial_.push_back(parameter.detach().to(at::kDouble, /*non_blocking=*/false, /*copy=*/true));
    }
    pool_->put(std::move(first));
  }

  std::size_t weight_count() const override { return initial_.size(); }
  Tensors initial_weights(at::Generator&) const override { return initial_; }

  Output forward(Weights weights, const at::Tensor& input, std::uint64_t) const override {
    auto graph = std::make_shared<Graph>(pool_, pool_->take(make_), weights, input);
    at::Tensor output = graph->output();
    return {std::move(output), {.tensors = {}, .parts = {}, .graph = std::move(graph)}};
  }

  Output backward_input(Weights, const at::Tensor& gradient, Record forward) const override {
    at::Tensor of_input = std::static_pointer_cast<Graph>(forward.graph)->of_input(gradient);
    forward.tensors = {gradient};
    return {std::move(of_input), std::move(forward)};
  }

  Tensors backward_weight(Weights, const Record& record) const override {
    // Without weights there is nothing to compute, and autograd reports an error for an empty list.
    if (initial_.empty()) return {};
    return std::static_pointer_cast<Graph>(record.graph)->of_weights(record.tensors[0]);
  }

  Gradients backward(Weights, const at::Tensor& gradient, Record forward) const override {
    return std::static_pointer_cast<Graph>(forward.graph)->of_all(gradient);
  }

 private:
  ModuleFactory make_;
  std::shared_ptr<Pool> pool_;
  Tensors initial_;
};

}  // namespace

LayerPointer autograd_layer(ModuleFactory make) { return std::make_shared<AutogradLayer>(std::move(make)); }

}  // namespace penstock::nn

#pragma once
// Makes any torch::nn::Module a layer that autograd differentiates, for layers that layers.hpp lacks. If I
// and W are separate actions, W computes the chain of the inputs a second time.

#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "backend/torch/layer.hpp"

namespace penstock::nn {

/// A module, and a function that calls it.
struct WrappedModule {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor& input)> forward;
};

/// Wraps a module holder (torch::nn::Linear, torch::nn::Sequential, one of TORCH_MODULE) or a shared pointer
/// to a module. Its ->forward must take a tensor and return one.
template <class Pointer>
WrappedModule wrap(Pointer module) {
  return {.module = module.operator->()->shared_from_this(),
          .forward = [module](const at::Tensor& input) mutable { return module->forward(input); }};
}

/// A function that makes a new module. It is called again for each further microbatch in flight. The module's
/// forward must depend only on its parameters and its input: no random numbers, no buffers that it changes.
using ModuleFactory = std::function<WrappedModule()>;

/// Returns the layer. Its weights are the module's parameters, in the module's order; the initial weights are
/// those of the module that the factory makes.
LayerPointer autograd_layer(ModuleFactory make);

}  // namespace penstock::nn

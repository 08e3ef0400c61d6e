#pragma once
// Makes a layer from any torch::nn::Module, for layers that layers.hpp lacks. autograd computes its
// gradients. If I (gradient of the inputs) and W (gradient of the weights) are separate actions, W repeats
// the computation of I.

#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "backend/torch/layers.hpp"

namespace penstock::nn {

/// A PyTorch module, and a function that calls its forward().
struct WrappedModule {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor& input)> forward;
};

/// Returns a module with a function that calls its forward. `module` is a module holder (torch::nn::Linear,
/// torch::nn::Sequential, one made by TORCH_MODULE) or a shared pointer to a module. Its ->forward must
/// take one tensor and return one.
template <class Pointer>
WrappedModule wrap(Pointer module) {
  return {.module = module.operator->()->shared_from_this(),
          .forward = [module](const at::Tensor& input) mutable { return module->forward(input); }};
}

/// A function that makes a new module. The layer calls it once for each microbatch that is in flight at the
/// same time. The output of the module must depend only on its parameters and its input. Its forward must
/// not use random numbers or change buffers.
using ModuleFactory = std::function<WrappedModule()>;

/// Returns a layer that calls a module made by `make`. The weights of the layer are the module's
/// parameters, in the module's order. Their initial values are those of a module that `make` returns.
LayerPointer autograd_layer(ModuleFactory make);

}  // namespace penstock::nn

#pragma once
// Any torch::nn::Module as a layer, differentiated by autograd. For what layers.hpp does not have; where I
// and W are apart, W runs the input's chain a second time.

#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "backend/torch/layer.hpp"

namespace penstock::nn {

/// A module and what calls it.
struct WrappedModule {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor& input)> forward;
};

/// Of a module holder (torch::nn::Linear, torch::nn::Sequential, one of TORCH_MODULE) or a shared pointer to
/// a module: anything whose ->forward takes a tensor and returns one.
template <class Pointer>
WrappedModule wrap(Pointer module) {
  return {.module = module.operator->()->shared_from_this(),
          .forward = [module](const at::Tensor& input) mutable { return module->forward(input); }};
}

/// Makes the module anew; called again for each further microbatch in flight. Its forward must not depend on
/// anything but its parameters and its input: no random numbers, no buffers that it changes.
using ModuleFactory = std::function<WrappedModule()>;

/// The weights are the module's parameters, in its order; the initial ones are those that the factory makes.
LayerPointer autograd_layer(ModuleFactory make);

}  // namespace penstock::nn

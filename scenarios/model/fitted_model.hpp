#pragma once
// A model whose costs were fitted on measured iterations of one machine. prepare/fitted_prices.hpp computes
// the costs of its stages when the number of stages and the microbatch size are known.

#include <cstdint>
#include <memory>

#include "scenarios/pricing/iteration_costs.hpp"

namespace penstock {

struct FittedModel {
  std::shared_ptr<const IterationCosts> costs;
  FittedLayer kind;  ///< `micro_batch_size` is set when the model is priced
  std::int64_t layers = 1;
  std::int32_t copies = 1;  ///< the number of copies of the pipeline

  friend bool operator==(const FittedModel&, const FittedModel&) = default;
};

}  // namespace penstock

#pragma once
// A model whose costs were fitted on measured iterations of one machine: what its stages cost follows when
// the number of stages and the microbatch are known (prepare/fitted_prices.hpp).

#include <cstdint>
#include <memory>

#include "scenarios/pricing/iteration_costs.hpp"

namespace penstock {

struct FittedModel {
  std::shared_ptr<const IterationCosts> costs;
  FittedLayer kind;  ///< `micro_batch_size` is set when it is priced
  std::int64_t layers = 1;
  std::int32_t copies = 1;  ///< of the pipeline

  friend bool operator==(const FittedModel&, const FittedModel&) = default;
};

}  // namespace penstock

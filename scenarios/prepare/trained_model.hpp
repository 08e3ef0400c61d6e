#pragma once
// What all copies of a pipeline train, for figures that count the model's own operations (MFU) and devices.

#include <cstdint>

#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// What is trained by all copies of a pipeline on named devices.
struct TrainedModel {
  std::int64_t parameters = 0;
  std::int64_t active_parameters = 0;
  double flops_per_sample = 0;  ///< of the model: nothing computed twice
  std::int64_t tokens_per_sample = 1;
  std::int64_t devices = 1;          ///< that all copies occupy
  std::int32_t copies = 1;           ///< of the pipeline, of which the program is one
  double peak_flops_per_second = 0;  ///< of a device at the training's precision

  friend bool operator==(const TrainedModel&, const TrainedModel&) = default;
};

/// Requires a workload whose degrees are settled.
TrainedModel trained_by(const Workload& work);

}  // namespace penstock

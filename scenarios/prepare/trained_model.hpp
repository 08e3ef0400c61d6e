#pragma once
// The training of all copies of a pipeline, for figures such as the MFU and the number of devices.

#include <cstdint>

#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// The model and the devices that all copies of a pipeline together train and occupy.
struct TrainedModel {
  std::int64_t parameters = 0;
  std::int64_t active_parameters = 0;
  double flops_per_sample = 0;  ///< the model's own operations, with nothing computed twice
  std::int64_t tokens_per_sample = 1;
  std::int64_t devices = 1;          ///< the devices that all copies occupy
  std::int32_t copies = 1;           ///< the copies of the pipeline; the program is one copy
  double peak_flops_per_second = 0;  ///< the peak of one device at the training's precision

  friend bool operator==(const TrainedModel&, const TrainedModel&) = default;
};

/// Returns the figures of a workload. Requires that all its degrees are set.
TrainedModel trained_by(const Workload& work);

}  // namespace penstock

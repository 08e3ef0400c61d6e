#pragma once
// Reduces a scenario to one copy of its pipeline and decides the cuts of its layers. Used by experiment.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

struct OneCopy {
  Scenario scenario;  ///< its batch is still the batch of all copies
  /// The number of copies that share the batch. Absent if one program contains all copies.
  std::optional<std::int32_t> copies{};
  std::optional<Workload> work{};  ///< the workload on named devices, with all degrees set
};

/// Returns one copy of the pipeline. Errors: the errors of device_workload() and with_planned_partition();
/// copies that the schedule makes itself, if the model has fitted costs.
tl::expected<OneCopy, std::string> one_copy(const Scenario& stated);

}  // namespace penstock

#pragma once
// What is prepared of a scenario: one of the copies of its pipeline, whose layers have their cuts. Used by
// experiment.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

struct OneCopy {
  Scenario scenario;                     ///< its batch is still that of all copies
  std::optional<std::int32_t> copies{};  ///< which share the batch; none where a program has all copies
  std::optional<Workload> work{};        ///< on named devices, with its degrees settled
};

/// Errors: those of device_workload() and with_planned_partition(); copies that a schedule makes itself of a
/// model with fitted costs.
tl::expected<OneCopy, std::string> one_copy(const Scenario& stated);

}  // namespace penstock

#pragma once
// Sweeps: one scenario over many K, M and schedules, in parallel, with equal results on any number of
// threads.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "report/sweep.hpp"
#include "scenarios/scenario.hpp"
#include "sim/engines.hpp"

namespace penstock {

/// Which size stays while M changes.
enum class HeldBatch : std::uint8_t { global_batch, micro_batch };

/// The grid. An empty list keeps the scenario's own value.
struct SweepGrid {
  std::vector<std::string> schedules;
  std::vector<std::int32_t> stages;
  std::vector<std::int32_t> microbatches;
  HeldBatch held = HeldBatch::global_batch;
  Engine engine = Engine::automatic;
  std::function<void(std::size_t done, std::size_t total)>
      progress{};  ///< called from any thread; may be empty
};

/// The size that a sweep of `scenario` holds unless told otherwise: the global batch where the scenario
/// gives one, else the microbatch.
HeldBatch default_held_batch(const Scenario& scenario);

/// Every point of the grid as a row, ordered by schedule, K, M. A point that cannot be made (a batch that
/// does not divide, more stages than layers, too few devices) is a row with status `skipped` and the reason;
/// one that does not fit a device's memory has status `out_of_memory` and all its figures.
Sweep sweep(const Scenario& scenario, const SweepGrid& grid);

}  // namespace penstock

#pragma once
// Sweeps: one scenario over many schedules, K, v and M, in parallel, with equal results on any number of
// threads.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "report/result/sweep_table.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/engines/engines.hpp"

namespace penstock {

/// The grid. An empty list keeps the scenario's own value.
struct SweepGrid {
  std::vector<std::string> schedules{};
  std::vector<std::int32_t> stages{};
  std::vector<std::int32_t> virtual_stages{};  ///< only for schedules that take v; others keep to their own
  std::vector<std::int32_t> microbatches{};
  Batch batch{};  ///< sizes that are stated for the sweep; each stays while M changes
  Engine engine = Engine::automatic;
  std::function<void(std::size_t done, std::size_t total)>
      progress{};  ///< called from any thread; may be empty
};

/// Every point of the grid as a row, ordered by schedule, K, v, M. A point that cannot be made (a batch that
/// does not divide, more stages than layers, too few devices) is a row with status `skipped` and the reason;
/// one that does not fit a device's memory has status `out_of_memory` and all its figures. Of the sizes of
/// the batch those of `grid.batch` stay while M changes; where it has none, the scenario's global batch, or
/// else its microbatch. Whether an asynchronous schedule fits, and its peak, are those of its endless stream:
/// a short run would not fill the pipeline. The notes are those of all points, each once.
Sweep sweep(const Scenario& scenario, const SweepGrid& grid);

}  // namespace penstock

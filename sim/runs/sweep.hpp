#pragma once
// Sweeps: one scenario over many schedules, K, v and M, in parallel, with equal results on any number of
// threads.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "report/result/sweep_progress.hpp"
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

  /// Points that are known already, by their number in the order of the rows; they are not simulated again.
  std::map<std::size_t, SweepPoint> known{};

  SweepShard shard{};  ///< the points that are made; the others are no rows

  // Called from any thread; each may be empty.
  std::function<void(std::size_t done, std::size_t total)> progress{};
  std::function<void(std::size_t number, const SweepPoint& point)> finished{};
  std::function<bool()> stopped{};  ///< true: begin no further point
};

/// How many rows the grid has, at most 2^62.
std::uint64_t point_count(const Scenario& scenario, const SweepGrid& grid);

/// Returns what the sweep says beside its points, without a digest.
SweepHead sweep_head(const Scenario& scenario, const SweepGrid& grid);

/// Says why `grid.known` is of another sweep: numbers beyond the last, points of other sizes, or other
/// figures in the few points that are simulated again.
tl::expected<void, std::string> check_known(const Scenario& scenario, const SweepGrid& grid);

/// Every point of the grid as a row, ordered by schedule, K, v, M. A point that cannot be made (a batch that
/// does not divide, more stages than layers, too few devices) is a row with status `skipped` and the reason;
/// one that does not fit a device's memory has status `out_of_memory` and all its figures. Of the sizes of
/// the batch those of `grid.batch` stay while M changes; where it has none, the scenario's global batch, or
/// else its microbatch. Whether an asynchronous schedule fits, and its peak, are those of its endless stream:
/// a short run would not fill the pipeline. The notes are those of all points, each once. A
/// sweep that was stopped has the rows that were done, and a note that says so.
Sweep sweep(const Scenario& scenario, const SweepGrid& grid);

}  // namespace penstock

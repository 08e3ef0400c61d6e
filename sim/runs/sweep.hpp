#pragma once
// Sweeps: predicts one scenario for many schedules, K, v and M, in parallel. The results are equal on any
// number of threads.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "report/result/sweep_progress.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/engines/engines.hpp"

namespace penstock {

/// The grid of points. If a list is empty, the scenario's own value is used.
struct SweepGrid {
  std::vector<std::string> schedules{};
  std::vector<std::int32_t> stages{};
  std::vector<std::int32_t> virtual_stages{};  ///< ignored by schedules that do not accept v
  std::vector<std::int32_t> microbatches{};
  Batch batch{};  ///< sizes that the user states for the sweep; each stays constant while M changes
  Engine engine = Engine::automatic;

  /// Points that the caller already has, by their number in the order of the sweep. They are not simulated
  /// again.
  std::map<std::size_t, SweepPoint> known{};

  SweepShard shard{};  ///< points that this call simulates; others are not in the result

  // These may be called from any thread. Each may be empty.
  std::function<void(std::size_t done, std::size_t total)> progress{};
  std::function<void(std::size_t number, const SweepPoint& point)> finished{};
  std::function<bool()> stopped{};  ///< returns true to start no further point
};

/// Returns the number of points of the grid, at most 2^62.
std::uint64_t point_count(const Scenario& scenario, const SweepGrid& grid);

/// Returns the parts of the sweep other than its points, without a digest.
SweepHead sweep_head(const Scenario& scenario, const SweepGrid& grid);

/// Checks that `grid.known` belongs to this sweep; a few of its points are simulated again. Error: a number
/// is beyond the last point, or sizes or figures of a point differ.
tl::expected<void, std::string> check_known(const Scenario& scenario, const SweepGrid& grid);

/// Returns the points of the grid, ordered by schedule, K, v and M.
///
/// A point that cannot be made has status `skipped` and the reason: a batch that does not divide, more stages
/// than layers, too few devices. A point that does not fit in a device's memory has status `out_of_memory`
/// and all its figures.
///
/// The sizes in `grid.batch` stay constant while M changes. If it has none, the scenario's global batch stays
/// constant, or else its microbatch. For an asynchronous schedule, the peak memory is that of its endless
/// stream, because a short run would not fill the pipeline.
///
/// Each note of the points appears once. A sweep that was stopped has the points that were done, and a note
/// about it.
Sweep sweep(const Scenario& scenario, const SweepGrid& grid);

}  // namespace penstock

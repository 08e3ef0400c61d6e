#pragma once
// Predicts one scenario for many points, in parallel. Points differ in the schedule, the number of stages
// K, chunks v, microbatches M, and the values of other keys. The results do not depend on the number of
// threads.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"

namespace penstock {

/// One scenario of a sweep that varies keys, with the values of these keys.
struct SweepVariant {
  VariedValues values{};  ///< the varied keys and their values; `scenario` already has these values
  Scenario scenario{};
  Batch batch{};  ///< the sizes that stay constant while M changes (see SweepGrid)
  /// The reason why a scenario cannot have these values, or empty if it can. If there is a reason, all points
  /// of the variant are skipped, and `scenario` only gives the schedule and the sizes of their rows.
  std::string refusal{};
};

/// The grid of points. If a list is empty, the scenario's own value is used.
struct SweepGrid {
  /// The scenarios for the values of the varied keys. If the list is empty, all points have the same
  /// scenario. Otherwise the other lists apply to each scenario, and `batch` is not used.
  std::vector<SweepVariant> variants{};
  std::vector<std::string> schedules{};
  /// Programs of files, by the names that `schedules` gives them. A point with such a name runs this program.
  /// The point is skipped if the program has other numbers of ranks or microbatches. It is also skipped if
  /// the scenario has copies or other work that the file does not describe.
  std::map<std::string, Program> programs{};
  std::vector<std::int32_t> stages{};
  std::vector<std::int32_t> virtual_stages{};  ///< ignored by schedules that do not accept v
  std::vector<std::int32_t> microbatches{};
  Batch batch{};  ///< sizes that the user states for the sweep; each stays constant while M changes
  Engine engine = Engine::automatic;

  /// Points of an earlier sweep, by their number in the order of the sweep. They are not simulated again.
  std::map<std::size_t, SweepPoint> known{};

  SweepShard shard{};  ///< the points that this call simulates; the result contains no others

  // The next three functions may be called from any thread. Each may be empty.
  std::function<void(std::size_t done, std::size_t total)> progress{};
  std::function<void(std::size_t number, const SweepPoint& point)> finished{};
  std::function<bool()> stopped{};  ///< returns true if no further points should start
};

/// Returns the number of points of the grid, at most 2^62.
std::uint64_t point_count(const Scenario& scenario, const SweepGrid& grid);

/// Returns the data of the sweep that come before its points: their number, the title and the notes. The
/// digest is empty.
SweepHead sweep_head(const Scenario& scenario, const SweepGrid& grid);

/// Checks that the points in `grid.known` belong to this sweep, and simulates a few of them again. Returns an
/// error if a number is beyond the last point, or if a point has other sizes or figures.
tl::expected<void, std::string> check_known(const Scenario& scenario, const SweepGrid& grid);

/// Returns the points of the grid, ordered by variant, schedule, K, v and M.
///
/// An impossible point has status `skipped` and a reason, such as a batch that cannot be divided, more stages
/// than layers, or too few devices. A point that does not fit in a device's memory has status `out_of_memory`
/// and all its figures.
///
/// The sizes in `grid.batch` stay constant while M changes. If `grid.batch` has no sizes, the scenario's
/// global batch size stays constant. If the scenario has none, its microbatch size stays constant. For an
/// asynchronous schedule, the peak memory is that of its endless stream, because a short run would not fill
/// the pipeline.
///
/// Each note of the points appears once. If the sweep was stopped, the result has the finished points and a
/// note about the stop.
Sweep sweep(const Scenario& scenario, const SweepGrid& grid);

/// Returns the scenario of the point with this number in the order of the points. Returns nothing if the grid
/// has fewer points.
std::optional<Scenario> scenario_of_point(const Scenario& scenario, const SweepGrid& grid,
                                          std::size_t number);

}  // namespace penstock

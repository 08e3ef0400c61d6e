#pragma once
// The outcome of a sweep: a row for each combination of schedule, K, M and batch sizes that was asked for,
// also if it could not run. sim/ fills the rows; they are printed here and drawn by html_report.hpp.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The outcome of a point of a sweep.
enum class SweepStatus : std::uint8_t {
  // simulated, and every rank fits into its device
  ok,
  // simulated, but `peak_rank` needs more memory than its device has
  out_of_memory,
  // the shape is impossible for the schedule, or the batch sizes do not divide
  skipped,
  // the program hangs, or another error occurred
  failed,
};
template <>
inline constexpr auto kEnumWords<SweepStatus> =
    std::to_array<EnumWord<SweepStatus>>({{SweepStatus::ok, "ok"},
                                          {SweepStatus::out_of_memory, "out_of_memory"},
                                          {SweepStatus::skipped, "skipped"},
                                          {SweepStatus::failed, "failed"}});

/// One point. The figures of the run, and those from makespan_ns on, have values only for `ok` and
/// `out_of_memory`; otherwise they are empty (null in JSON). Sizes that were not given and could not be
/// computed are empty too. Figures of a run that no column of a sweep has (figure_rows.hpp) are 0.
struct SweepRow : RunFigures {
  std::string schedule;
  /// The pipeline size K, which is schedule.stages of a scenario.
  std::int32_t stages = 1;
  /// The number v of chunks on each rank. The model has K * v stages.
  std::int32_t virtual_stages = 1;
  /// The number of microbatches, M.
  std::int32_t microbatches = 1;
  std::optional<double> micro_batch_size;
  std::optional<double> global_batch_size;
  SweepStatus status = SweepStatus::ok;
  /// The reason why the status is not ok.
  std::string reason;
  Ns makespan_ns = 0;
  /// The value of idle_over_total by the schedule's formula, if it has one
  std::optional<double> closed_form_bubble;
  Bytes peak_bytes = 0;
  std::int32_t peak_rank = 0;
  MemoryUnit memory_unit = MemoryUnit::bytes;

  friend bool operator==(const SweepRow&, const SweepRow&) = default;
};

/// A row with the notes of its experiment.
struct SweepPoint {
  SweepRow row;
  std::vector<std::string> notes;

  friend bool operator==(const SweepPoint&, const SweepPoint&) = default;
};

/// A whole sweep.
struct Sweep {
  std::string title;
  /// The points that were done, if the sweep was interrupted.
  std::vector<SweepRow> rows;
  std::vector<std::string> notes;
  /// A sentence on how far an interrupted sweep came; `notes` has it too.
  std::optional<std::string> interruption{};

  friend bool operator==(const Sweep&, const Sweep&) = default;
};

/// Returns true if the row has figures.
bool was_simulated(const SweepRow& row);
/// Returns the rate by which rows are ranked: steady samples/s, or samples/s of the whole run if there is no
/// steady rate.
double ranking_rate(const SweepRow& row);
/// Returns true if `row` has the better ranking_rate(). A row with a steady rate ranks above every row
/// without one.
bool ranks_above(const SweepRow& row, const SweepRow& other);
/// Returns the best `ok` row of each schedule by ranks_above(), in the order of the schedules' first rows. On
/// a tie the first row wins. A schedule without an `ok` row is left out.
std::vector<SweepRow> best_per_schedule(const Sweep& sweep);
/// Returns the schedules in the order of their first rows.
std::vector<std::string> schedules_of(const Sweep& sweep);

/// Returns all rows as a table for terminals and pages.
Table sweep_rows(const std::vector<SweepRow>& rows);

/// Returns all rows, the best of each schedule, and the notes. `width` limits the tables' lines; 0 means no
/// limit.
std::string sweep_table(const Sweep& sweep, std::size_t width = 0);
/// Returns CSV (RFC 4180) with a heading and a line for each row. Figures are in ns, bytes and ratios.
std::string sweep_csv(const Sweep& sweep);
/// Returns JSON: {schema_version, kind: "sweep", title, rows: [...], best: [...], notes}. The keys of a row
/// are the columns of the CSV.
std::string sweep_json(const Sweep& sweep);

/// Returns a point as a line of JSON that holds all of it. `number` counts from 0 in the order of the sweep's
/// rows.
std::string sweep_point_json(std::size_t number, const SweepPoint& point);
/// Reads a line of sweep_point_json(). Error: the part that is not a point, or a figure that no simulation
/// can have, such as a bubble above 1.
tl::expected<std::pair<std::size_t, SweepPoint>, std::string> sweep_point_of_json(std::string_view line);

}  // namespace penstock

#pragma once
// The outcome of a sweep: one row for each combination of schedule, K, M and batch sizes that was asked
// for, whether it could be run or not. Filled by sim/, printed here and drawn by html_report.hpp.

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

/// What became of a point of a sweep.
enum class SweepStatus : std::uint8_t {
  ok,             // simulated, and every rank fits into its device
  out_of_memory,  // simulated, but `peak_rank` needs more memory than its device has
  skipped,        // the shape is impossible for the schedule, or the batch sizes do not divide
  failed,         // the program hangs, or something else went wrong
};
template <>
inline constexpr auto kEnumWords<SweepStatus> =
    std::to_array<EnumWord<SweepStatus>>({{SweepStatus::ok, "ok"},
                                          {SweepStatus::out_of_memory, "out_of_memory"},
                                          {SweepStatus::skipped, "skipped"},
                                          {SweepStatus::failed, "failed"}});

/// One point. The figures from makespan_ns on mean something for `ok` and `out_of_memory` only; they are
/// left empty (null in JSON) otherwise, as are sizes that were not given and could not be found.
struct SweepRow {
  std::string schedule;
  std::int32_t stages = 1;          ///< K, as schedule.stages of a scenario
  std::int32_t virtual_stages = 1;  ///< v: the model has K * v stages
  std::int32_t microbatches = 1;    ///< M
  std::optional<double> micro_batch_size;
  std::optional<double> global_batch_size;
  SweepStatus status = SweepStatus::ok;
  std::string reason;  ///< why it is not ok
  Ns makespan_ns = 0;
  BubbleReport bubble;
  std::optional<double> closed_form_bubble;  ///< idle_over_total by the schedule's formula, where it has one
  double samples_per_second = 0;
  std::optional<double> steady_samples_per_second;
  double samples_per_update = 0;
  std::optional<double> cost_per_million_samples{};
  std::optional<ModelRates> model{};  ///< where the model's size is known
  Bytes peak_bytes = 0;
  std::int32_t peak_rank = 0;
  MemoryUnit memory_unit = MemoryUnit::bytes;

  friend bool operator==(const SweepRow&, const SweepRow&) = default;
};

/// A row, and what its experiment notes.
struct SweepPoint {
  SweepRow row;
  std::vector<std::string> notes;

  friend bool operator==(const SweepPoint&, const SweepPoint&) = default;
};

struct Sweep {
  std::string title;
  std::vector<SweepRow> rows;  ///< of an interrupted sweep: those that were done
  std::vector<std::string> notes;
  std::optional<std::string> interruption{};  ///< how far it came, where it was; among the notes, too

  friend bool operator==(const Sweep&, const Sweep&) = default;
};

/// True when the row has figures.
bool was_simulated(const SweepRow& row);
/// What rows are ranked by: steady samples/s, or those of the whole run where there is no steady figure.
double ranking_rate(const SweepRow& row);
/// True when `row` has the better ranking_rate; one with a steady figure is above any without.
bool ranks_above(const SweepRow& row, const SweepRow& other);
/// For each schedule, in the order of its first row, the `ok` row that no other ranks_above() (the first on a
/// tie). A schedule without an `ok` row is not there.
std::vector<SweepRow> best_per_schedule(const Sweep& sweep);
/// The schedules in the order of their first rows.
std::vector<std::string> schedules_of(const Sweep& sweep);

/// All rows as a Table for terminals and pages.
Table sweep_rows(const std::vector<SweepRow>& rows);

/// All rows, the best of each schedule, notes. `width` is that of the tables' lines; 0: any.
std::string sweep_table(const Sweep& sweep, std::size_t width = 0);
/// RFC 4180 with a heading; a line a row, figures in ns, bytes and ratios.
std::string sweep_csv(const Sweep& sweep);
/// {schema_version, kind: "sweep", title, rows: [...], best: [...], notes}; a row has the CSV's columns as
/// keys.
std::string sweep_json(const Sweep& sweep);

/// A point, counted from 0 in the order of a sweep's rows, as a line of JSON that keeps all of it.
std::string sweep_point_json(std::size_t number, const SweepPoint& point);
/// Such a line again. Error: what of it is no point, a figure that no simulation has among it, as a bubble
/// above 1.
tl::expected<std::pair<std::size_t, SweepPoint>, std::string> sweep_point_of_json(std::string_view line);

}  // namespace penstock

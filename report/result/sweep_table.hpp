#pragma once
// The results of a sweep. There is one entry for each requested combination of schedule, K, M and batch
// sizes, even if the combination could not run. sim/ makes the entries, and html_report.hpp draws them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The outcome of one point of a sweep.
enum class SweepStatus : std::uint8_t {
  // the point was simulated, and every rank has enough memory
  ok,
  // the point was simulated, but `peak_rank` needs more memory than its device has
  out_of_memory,
  // the schedule does not allow this shape, or the batch sizes do not divide
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

/// The scenario keys that differ between the points of a sweep, each with its value at one point.
using VariedValues = std::vector<std::pair<std::string, std::string>>;

/// One point of a sweep. Only points with the status `ok` or `out_of_memory` have figures. For all other
/// points, the figures are empty (null in JSON). Sizes that were not given and could not be computed are
/// also empty. Figures without a column in sweeps (result_figures.hpp) are 0.
struct SweepRow : RunFigures {
  /// The values of the varied keys. All points of a sweep have the same keys in the same order.
  VariedValues varied;
  std::string schedule;
  /// The pipeline size K, which is the key schedule.stages of a scenario.
  std::int32_t stages = 1;
  /// The number v of chunks on each rank. The model has K * v stages.
  std::int32_t virtual_stages = 1;
  /// The number of microbatches, M.
  std::int32_t microbatches = 1;
  std::optional<double> micro_batch_size;
  std::optional<double> global_batch_size;
  SweepStatus status = SweepStatus::ok;
  /// The reason why the status is not `ok`.
  std::string reason;
  Ns makespan_ns = 0;
  /// The idle time divided by the total time (idle_over_total) by the schedule's formula. It is absent if
  /// there is no formula.
  std::optional<double> closed_form_bubble;
  Bytes peak_bytes = 0;
  std::int32_t peak_rank = 0;
  MemoryUnit memory_unit = MemoryUnit::bytes;

  friend bool operator==(const SweepRow&, const SweepRow&) = default;
};

/// A point with the notes of its experiment.
struct SweepPoint {
  SweepRow row;
  std::vector<std::string> notes;

  friend bool operator==(const SweepPoint&, const SweepPoint&) = default;
};

/// A whole sweep.
struct Sweep {
  std::string title;
  /// The points of the sweep. If the sweep was interrupted, these are only the finished points.
  std::vector<SweepRow> rows;
  std::vector<std::string> notes;
  /// The bytes that a plan may use on one device. It is absent if memory is unlimited.
  std::optional<Bytes> usable_bytes{};
  /// A sentence that says how many points were finished when the sweep was interrupted. It is also in
  /// `notes`.
  std::optional<std::string> interruption{};
  /// The bills of the points that the page explains, by their indices in `rows`.
  std::map<std::size_t, MeanBill> bills{};

  friend bool operator==(const Sweep&, const Sweep&) = default;
};

/// Returns the values as text: "cluster.bandwidth = 8 GB/s, training.iterations = 2".
std::string varied_text(const VariedValues& varied);
/// Returns true if the point was simulated, so that it has figures.
bool was_simulated(const SweepRow& row);
/// Returns the rate by which points are ranked, in samples per second. This is the steady rate if there is
/// one, and otherwise the rate of the whole run.
double ranking_rate(const SweepRow& row);
/// Returns true if `row` ranks above `other`. A point with a steady rate ranks above every point without one.
/// Otherwise the point with the higher ranking_rate() ranks above the other.
bool ranks_above(const SweepRow& row, const SweepRow& other);
/// Returns the name of a point, such as "zb-h1 with K = 4 and M = 8".
std::string point_text(const SweepRow& row);
/// Returns the indices of the best point with the status `ok` and of the runner-up. The runner-up is the best
/// point of the other schedules, or the second best point if there is only one schedule. Returns fewer
/// indices if there are fewer points.
std::vector<std::size_t> best_two(const Sweep& sweep);
/// Returns the best point with the status `ok` of each schedule, by ranks_above(). The schedules are in the
/// order in which they first appear. Of two equally good points, it returns the first one. It leaves out
/// schedules without an `ok` point.
std::vector<SweepRow> best_per_schedule(const Sweep& sweep);
/// Returns the schedules in the order in which they first appear.
std::vector<std::string> schedules_of(const Sweep& sweep);

/// Returns all points as a table.
Table sweep_rows(const std::vector<SweepRow>& rows);

/// Returns a text with all points, the best point of each schedule, and the notes. Table lines have at most
/// `width` characters; 0 means no limit.
std::string sweep_table(const Sweep& sweep, std::size_t width = 0);
/// Returns the sweep as CSV (RFC 4180), with a header line and a line for each point. Times are in ns,
/// memory is in bytes, and ratios are fractions.
std::string sweep_csv(const Sweep& sweep);
/// Returns the sweep as JSON: {schema_version, kind: "sweep", title, rows: [...], best: [...], notes}. An
/// element of `rows` is a point, and its keys are the column names of the CSV. Each varied key is a column
/// of its own.
std::string sweep_json(const Sweep& sweep);

/// Returns a point as one line of JSON. `number` is the index of the point in the sweep, counted from 0.
std::string sweep_point_json(std::size_t number, const SweepPoint& point);
/// Reads a line of sweep_point_json(). Returns an error if the line is not a point, or if a figure is
/// impossible, such as a bubble above 1.
tl::expected<std::pair<std::size_t, SweepPoint>, std::string> sweep_point_of_json(std::string_view line);

// Stores the finished points of a sweep, or of one shard of it, as lines of JSON. `penstock sweep --shard
// I/N` and `--resume FILE` write such a text through cli/sweep_progress_file.hpp. `--merge` combines the
// shards.

/// The longest line in bytes, without its line end. A line can be long, because the reason why a point
/// failed may list what many ranks wait for.
inline constexpr std::size_t kLongestProgressLine = std::size_t{1} << 20U;

/// One of the `count` shards of a sweep. It has point number `index` and every count-th point after it.
/// Neighbouring points of the grid take similar time, so all shards take about equally long.
struct SweepShard {
  std::int32_t index = 0;  ///< The shard's number, from 0. Users see it counted from 1.
  std::int32_t count = 1;

  bool has(std::size_t number) const {
    return number % static_cast<std::size_t>(count) == static_cast<std::size_t>(index);
  }
  /// Returns the number of points that this shard has if the whole sweep has `points` points.
  std::size_t size(std::size_t points) const {
    const auto shards = static_cast<std::size_t>(count);
    return points / shards + (static_cast<std::size_t>(index) < points % shards ? 1 : 0);
  }

  friend bool operator==(const SweepShard&, const SweepShard&) = default;
};
/// Returns the shard as "NUMBER/COUNT". The second of four shards is "2/4".
std::string to_text(const SweepShard& shard);

/// The data that identify a sweep and one of its shards, and the texts that belong to the whole sweep.
struct SweepHead {
  std::size_t points = 0;  ///< The number of points in all shards together.
  /// The digest of the inputs that determine the points. Sweeps with equal digests have the same points.
  std::string digest{};
  SweepShard shard{};   ///< The shard that the text contains.
  std::string title{};  ///< The title of the sweep (Sweep::title).
  /// The notes on the scenario. In the report of the sweep, they come before the notes on single points.
  std::vector<std::string> notes{};
  /// The bytes that a plan may use on one device (Sweep::usable_bytes).
  std::optional<std::int64_t> usable_bytes{};
  std::string chunks_note{};  ///< the last note if a point has v > 1; it is empty if there is no such note
};

/// The finished points of one shard, and the head of their sweep.
struct SweepPart {
  SweepHead head;
  std::map<std::size_t, SweepPoint> points;  ///< The finished points by their number in the sweep.
  std::map<std::size_t, MeanBill> bills;     ///< The bills of some of these points, by the same numbers.
};

/// Returns the first line of a progress file, which identifies the sweep and the shard. Each further line
/// is the sweep_point_json() of one point, or the sweep_bill_json() of a point in an earlier line. The points
/// may be in any order.
std::string sweep_progress_head(const SweepHead& head);
/// Returns the bill of a point as one line of JSON. `number` is the index of the point in the sweep. The
/// shard with the best point of the whole sweep has this point among its own best_two(), and the same holds
/// for the runner-up. So a merged sweep has the bills for its page if each shard stores those of its
/// best_two().
std::string sweep_bill_json(std::size_t number, const MeanBill& bill);

/// Reads the progress text of one shard. If a point appears twice, its last line counts. A last line without
/// a line end is dropped, because it may be incomplete after a crash. If `expected` is given, the text must
/// belong to that sweep and shard. The error message starts with `file`. Fails if the text cannot be read, is
/// of another kind or belongs to another shard. Also fails if a line is wrong or too long, or if there are
/// too many lines.
tl::expected<SweepPart, std::string> read_sweep_part(std::istream& text, const std::string& file,
                                                     const SweepHead* expected = nullptr);

/// Returns the sweep that consists of `points`, in which a point's index is its number. If points of the
/// shard are absent, the sweep is marked as interrupted.
Sweep sweep_of_points(const SweepHead& head, std::vector<std::optional<SweepPoint>> points);

}  // namespace penstock

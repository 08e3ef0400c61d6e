#pragma once
// Stores the finished points of a sweep, or of one shard of it, as lines of JSON. `penstock sweep --shard
// I/N` and `--resume FILE` write such a text through cli/sweep_progress_file.hpp. `--merge` combines the
// shards.

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "report/result/sweep_table.hpp"

namespace penstock {

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
};

/// Returns the first line of a progress file, which identifies the sweep and the shard. Each further line
/// is the sweep_point_json() of one point. The points may be in any order.
std::string sweep_progress_head(const SweepHead& head);

/// Reads the progress text of one shard. If a point appears twice, its last line counts. A last line
/// without a line end is dropped, because it may be incomplete after a crash. If `expected` is given, the
/// text must belong to that sweep and shard. The error message starts with `file`. Errors: the text cannot
/// be read, is of another kind or belongs to another shard; a line is wrong or too long; there are too many
/// lines.
tl::expected<SweepPart, std::string> read_sweep_part(std::istream& text, const std::string& file,
                                                     const SweepHead* expected = nullptr);

/// Returns the sweep that consists of `points`, in which a point's index is its number. If points of the
/// shard are absent, the sweep is marked as interrupted.
Sweep sweep_of_points(const SweepHead& head, std::vector<std::optional<SweepPoint>> points);

}  // namespace penstock

#pragma once
// A part of a sweep as lines of JSON: what `penstock sweep --shard I/N` and `--resume FILE` write
// (cli/sweep_progress_file.hpp), and `--merge` puts together.

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

/// The most bytes of a line, its end not counted: a reason names what waits for what, on up to all ranks.
inline constexpr std::size_t kLongestProgressLine = std::size_t{1} << 20U;

/// One of `count` shards of a sweep: every count-th point from `index` on, since neighbours in the grid take
/// about as long.
struct SweepShard {
  std::int32_t index = 0;  ///< from 0; users count from 1
  std::int32_t count = 1;

  bool has(std::size_t number) const {
    return number % static_cast<std::size_t>(count) == static_cast<std::size_t>(index);
  }
  /// Returns how many points of a sweep of `points` it has.
  std::size_t size(std::size_t points) const {
    const auto shards = static_cast<std::size_t>(count);
    return points / shards + (static_cast<std::size_t>(index) < points % shards ? 1 : 0);
  }

  friend bool operator==(const SweepShard&, const SweepShard&) = default;
};
/// Returns "2/4" of the second of four.
std::string to_text(const SweepShard& shard);

/// The identity of a sweep and its texts that belong to no point.
struct SweepHead {
  std::size_t points = 0;            ///< of all shards
  std::string digest{};              ///< of what decides the points: two sweeps of one digest have the same
  SweepShard shard{};                ///< whose points follow
  std::string title{};               ///< Sweep::title
  std::vector<std::string> notes{};  ///< those of the scenario, which come before those of the points
  std::string chunks_note{};         ///< the last note where a row has v > 1; empty: none
};

/// The points of one shard, and the sweep that they are of.
struct SweepPart {
  SweepHead head;
  std::map<std::size_t, SweepPoint> points;  ///< by number
};

/// Returns the first line, which says what follows: a sweep_point_json() each of some points of the shard, in
/// any order.
std::string sweep_progress_head(const SweepHead& head);

/// Reads such a text. A last line without an end is dropped, because a crash can leave one. If a point
/// appears twice, its last line counts. With `expected`, the text must be of that sweep and shard.
/// Errors, which start with `file`: no such text, another sweep or shard, a line that is too long or no point
/// of the shard, many more lines than points, a stream that ends before its text does.
tl::expected<SweepPart, std::string> read_sweep_part(std::istream& text, const std::string& file,
                                                     const SweepHead* expected = nullptr);

/// Puts a sweep together from its points by number. Points of the shard that are absent make it an
/// interrupted one.
Sweep sweep_of_points(const SweepHead& head, std::vector<std::optional<SweepPoint>> points);

}  // namespace penstock

#pragma once
// The finished points of a sweep as lines of JSON, for `penstock sweep --resume FILE`
// (cli/sweep_progress_file.hpp).

#include <cstddef>
#include <iosfwd>
#include <map>
#include <string>

#include <tl/expected.hpp>

#include "report/result/sweep_table.hpp"

namespace penstock {

/// The largest number of bytes of a line without its end. It is large, because the reason of a hang may name
/// all ranks.
inline constexpr std::size_t kLongestProgressLine = std::size_t{1} << 20U;

/// The identity of a sweep.
struct SweepIdentity {
  std::size_t points = 0;
  /// The digest of everything that decides the points; sweeps with equal digests have the same points.
  std::string digest{};
};

/// Returns the first line of the text. After it, each line is the sweep_point_json() of some point of that
/// sweep, in any order.
std::string sweep_progress_head(const SweepIdentity& sweep);

/// Reads all points of such a text, by their number. A last line without an end is dropped, because a crash
/// can leave one. Errors start with `file`: the text is not a progress file, is of another sweep than
/// `sweep`, has a line that is too long or not a point, has many more lines than points, or ends early
/// because reading failed.
tl::expected<std::map<std::size_t, SweepPoint>, std::string> read_sweep_progress(std::istream& text,
                                                                                 const std::string& file,
                                                                                 const SweepIdentity& sweep);

}  // namespace penstock

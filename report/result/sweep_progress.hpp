#pragma once
// What a sweep has done so far, as lines of JSON: `penstock sweep --resume FILE`
// (cli/sweep_progress_file.hpp).

#include <cstddef>
#include <iosfwd>
#include <map>
#include <string>

#include <tl/expected.hpp>

#include "report/result/sweep_table.hpp"

namespace penstock {

/// In bytes, its end not counted: a reason names what waits for what, on up to all ranks.
inline constexpr std::size_t kLongestProgressLine = std::size_t{1} << 20U;

/// The first line, which says what follows: a sweep_point_json() each of some points, in any order, of a
/// sweep of so many.
std::string sweep_progress_head(std::size_t points);

/// All points of such a text by their number. A last line without an end is dropped: that is
/// what a crash leaves. Errors, which start with `file`: no such text, a sweep of other than `points` points,
/// a line that is no point or too long, many more lines than points, a stream that ends before its text does.
tl::expected<std::map<std::size_t, SweepPoint>, std::string> read_sweep_progress(std::istream& text,
                                                                                 const std::string& file,
                                                                                 std::size_t points);

}  // namespace penstock

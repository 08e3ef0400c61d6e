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

/// Which sweep it is.
struct SweepIdentity {
  std::size_t points = 0;
  std::string digest{};  ///< of what decides them: two sweeps of one digest have the same points
};

/// The first line, which says what follows: a sweep_point_json() each of some points of that sweep, in any
/// order.
std::string sweep_progress_head(const SweepIdentity& sweep);

/// All points of such a text by their number. A last line without an end is dropped: that is
/// what a crash leaves. Errors, which start with `file`: no such text, another sweep than `sweep`, a line
/// that is no point or too long, many more lines than points, a stream that ends before its text does.
tl::expected<std::map<std::size_t, SweepPoint>, std::string> read_sweep_progress(std::istream& text,
                                                                                 const std::string& file,
                                                                                 const SweepIdentity& sweep);

}  // namespace penstock

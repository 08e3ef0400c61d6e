#pragma once
// The programs that a calibration runs. They have the stages and the placement of the program that is to be
// predicted, but are other programs. Used by calibration.hpp.

#include <array>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The ranks that work while an action is measured.
enum class CalibrationLoad : std::uint8_t {
  // One rank: one microbatch at a time goes through the stages and back (naive), and a STEP follows each.
  alone,
  busy,  // all ranks: 1F1B over the same stages
};
template <>
inline constexpr auto kEnumWords<CalibrationLoad> = std::to_array<EnumWord<CalibrationLoad>>(
    {{CalibrationLoad::alone, "alone"}, {CalibrationLoad::busy, "busy"}});

/// The form of the backward of a microbatch.
enum class BackwardForm : std::uint8_t { whole, split, both };

struct CalibrationShape {
  CalibrationLoad load = CalibrationLoad::alone;
  std::int32_t microbatches = 1;
  BackwardForm backward = BackwardForm::whole;  ///< `both`: B in even microbatches, I and W in odd ones
  bool recomputes = false;                      ///< an R comes before each backward
};

/// Returns a valid program that is not lowered. Its stages are on the ranks of `like`, each on the rank of
/// its first replica.
tl::expected<Program, std::string> calibration_program(const Program& like, const CalibrationShape& shape);

}  // namespace penstock

#pragma once
// The programs that a calibration runs: made from the stages and the placement of the program that is to be
// predicted, but never that program. Used by calibration.hpp.

#include <array>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// Who works while an action is measured.
enum class CalibrationLoad : std::uint8_t {
  alone,  // one microbatch at a time goes down the stages and back (naive), a STEP after each
  busy,   // all ranks at once: 1F1B over the same stages
};
template <>
inline constexpr auto kEnumWords<CalibrationLoad> = std::to_array<EnumWord<CalibrationLoad>>(
    {{CalibrationLoad::alone, "alone"}, {CalibrationLoad::busy, "busy"}});

/// Which backward a microbatch has.
enum class BackwardForm : std::uint8_t { whole, split, both };

struct CalibrationShape {
  CalibrationLoad load = CalibrationLoad::alone;
  std::int32_t microbatches = 1;
  BackwardForm backward =
      BackwardForm::whole;  ///< both: B in microbatches of even number, I and W in odd ones
  bool recomputes = false;  ///< an R before each backward
};

/// A valid, not yet lowered program whose stages are on the ranks of `like`, each on its first replica's.
tl::expected<Program, std::string> calibration_program(const Program& like, const CalibrationShape& shape);

}  // namespace penstock

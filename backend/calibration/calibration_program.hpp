#pragma once
// Makes the programs that a calibration runs. They have the same stages and placement as the program to be
// predicted, but other lists. Used by calibration.hpp.

#include <array>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The load of the machine while an action is measured.
enum class CalibrationLoad : std::uint8_t {
  // Only one rank works at a time. One microbatch goes through all stages and back (naive schedule), and a
  // STEP follows.
  alone,
  busy,  // all ranks work, with a 1F1B schedule of the same stages
};
template <>
inline constexpr auto kEnumWords<CalibrationLoad> = std::to_array<EnumWord<CalibrationLoad>>(
    {{CalibrationLoad::alone, "alone"}, {CalibrationLoad::busy, "busy"}});

/// The form of the backward pass: B (whole), I and W (split), or both.
enum class BackwardForm : std::uint8_t { whole, split, both };

struct CalibrationShape {
  CalibrationLoad load = CalibrationLoad::alone;
  std::int32_t microbatches = 1;
  /// The form of the backward passes. For `both`, even microbatches have B, and odd ones have I and W.
  BackwardForm backward = BackwardForm::whole;
  bool recomputes = false;  ///< true if an R comes before each backward pass
};

/// Returns a valid program that is not lowered. Each stage is on the rank that holds its first replica in
/// `like`.
tl::expected<Program, std::string> calibration_program(const Program& like, const CalibrationShape& shape);

}  // namespace penstock

#pragma once
// penstock check --shrink: finds the smallest program that fails like the given one, and the reason.

#include <optional>
#include <string>
#include <vector>

#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/crossed_messages.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

struct SmallestFailure {
  Program program;
  std::string message;                    ///< message of validate(), lower() or find_hang()
  std::vector<WaitFor> cycle;             ///< cycle of a hang
  std::optional<Shape> shape;             ///< smallest failing shape of a generated schedule
  std::vector<CrossedMessage> crossed{};  ///< messages that cross
};

/// Returns nothing if the scenario's program is valid and safe under the scenario's channels, or if a
/// generated program is invalid.
std::optional<SmallestFailure> smallest_failure(const Scenario& scenario);

/// Returns a text for the terminal: its size, its text form, and why it fails.
std::string to_text(const SmallestFailure& failure);

}  // namespace penstock

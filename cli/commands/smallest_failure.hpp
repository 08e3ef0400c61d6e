#pragma once
// Implements penstock check --shrink: finds the smallest program that fails like the given one, and the
// reason.

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
  std::string message;                    ///< the error message of validate(), lower() or find_hang()
  std::vector<WaitFor> cycle;             ///< the cycle of waits, if the program hangs
  std::optional<Shape> shape;             ///< the smallest failing shape, if a schedule generated the program
  std::vector<CrossedMessage> crossed{};  ///< the messages that cross
};

/// Finds the smallest program that fails like the scenario. Returns nothing if the scenario's program is
/// valid and safe under its channels, or if a generated program is invalid.
std::optional<SmallestFailure> smallest_failure(const Scenario& scenario);

/// Returns a text for the terminal: the size of the program, its actions, and the reason why it fails.
std::string to_text(const SmallestFailure& failure);

}  // namespace penstock

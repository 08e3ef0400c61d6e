#pragma once
// penstock check --shrink: the smallest program that fails as the one in question does, and why it does.

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
  std::string message;                    ///< what validate(), lower() or find_hang() says of it
  std::vector<WaitFor> cycle;             ///< of a hang
  std::optional<Shape> shape;             ///< of a generated schedule: the smallest that fails
  std::vector<CrossedMessage> crossed{};  ///< the messages that cross
};

/// Nothing when the scenario's program is valid and safe under the scenario's channels, or when a generated
/// one is invalid already.
std::optional<SmallestFailure> smallest_failure(const Scenario& scenario);

/// For people: its size, its text form, and why it fails.
std::string to_text(const SmallestFailure& failure);

}  // namespace penstock

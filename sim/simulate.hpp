#pragma once
// The simulator's front door: an Experiment (or a Scenario) in, a predicted Result out.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "report/result.hpp"
#include "scenarios/experiment.hpp"
#include "scenarios/scenario.hpp"
#include "schedules/channel_check.hpp"
#include "sim/engines.hpp"
#include "sim/memory.hpp"

namespace penstock {

enum class SteadyState : std::uint8_t { find, skip };

struct SimulateOptions {
  Engine engine = Engine::automatic;
  MemoryOptions memory;
  SteadyState steady = SteadyState::find;
};

/// Predicts time, memory and traffic. Error: the program hangs under experiment.channels.
tl::expected<Result, Hang> simulate(const Experiment& experiment, const SimulateOptions& options);

/// Why a scenario has no prediction.
struct SimulateError {
  std::string message;
  bool invalid = false;      ///< parsed but invalid or hanging (exit 1); otherwise bad input (exit 2)
  std::optional<Hang> hang;  ///< when it hangs
};

/// prepare() and simulate(). The steady rate of an asynchronous schedule is taken from a longer stream
/// of the same scenario when the given one is too short to show its period.
tl::expected<Result, SimulateError> simulate_scenario(const Scenario& scenario,
                                                      const SimulateOptions& options);

}  // namespace penstock

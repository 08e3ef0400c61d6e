#pragma once
/// @file
/// Predicts time, memory and traffic of a scenario.
///
/// Stable names: @ref penstock::simulate_scenario, @ref penstock::SimulateOptions, @ref penstock::Prediction,
/// @ref penstock::UserError, @ref penstock::ErrorKind.
///
/// @code{.cpp}
/// penstock::Scenario scenario;
/// scenario.schedule = "1f1b";
/// scenario.shape.stages = 4;
/// scenario.batch.microbatches = 8;
/// const auto result = penstock::simulate_scenario(scenario, {.timeline = penstock::TimelineKept::none});
/// if (!result) throw std::runtime_error(result.error().message);
/// // (M + K - 1) x (F + B) = 11 x 3 ms
/// std::cout << result->makespan_ns << " ns\n";  // 33000000 ns
/// @endcode

#include "schedules/check/user_error.hpp"  // IWYU pragma: export
#include "sim/runs/simulate.hpp"           // IWYU pragma: export

#pragma once
/// @file
/// Reads a scenario: model, cluster, schedule, batch and training, from a file or from text.
///
/// Stable names: @ref penstock::load_scenario, @ref penstock::parse_scenario, @ref penstock::Scenario,
/// @ref penstock::Batch, @ref penstock::ClusterSpec, @ref penstock::Shape, @ref penstock::Override.
///
/// @code{.cpp}
/// const auto scenario = penstock::parse_scenario(
///     "schedule: {name: 1f1b, stages: 4, microbatches: 8}", "example", ".");
/// if (!scenario) throw std::runtime_error(scenario.error());
/// std::cout << scenario->schedule << ", K = " << scenario->shape.stages << '\n';  // 1f1b, K = 4
/// @endcode

#include "scenarios/read/document.hpp"  // IWYU pragma: export
#include "scenarios/read/load.hpp"      // IWYU pragma: export
#include "scenarios/read/scenario.hpp"  // IWYU pragma: export
#include "schedules/ir/shape.hpp"       // IWYU pragma: export

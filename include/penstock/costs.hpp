#pragma once
/// @file
/// Holds the time, the messages and the memory of each action of a program.
///
/// Stable names: @ref penstock::CostTable, @ref penstock::StageCost, @ref penstock::EdgeCost,
/// @ref penstock::LaunchCost, @ref penstock::simulate_uniform.
///
/// @code{.cpp}
/// const penstock::Program program = penstock::generate("gpipe", {.stages = 2, .microbatches = 2}).value();
/// penstock::CostTable costs;
/// costs.stages.assign(2, {.forward_ns = 1'000, .backward_ns = 2'000});
/// costs.edges.assign(1, {});
/// const auto result = penstock::simulate_uniform(program, costs, 100, penstock::SteadyState::skip);
/// if (!result) throw std::runtime_error(result.error());
/// std::cout << result->makespan_ns << " ns\n";  // 9200 ns
/// @endcode

#include "schedules/ir/cost_table.hpp"  // IWYU pragma: export
#include "sim/runs/simulate.hpp"        // IWYU pragma: export

#pragma once
/// @file
/// Generates the programs of published schedules.
///
/// Stable names: @ref penstock::generate, @ref penstock::schedule_table, @ref penstock::find_schedule,
/// @ref penstock::ScheduleInfo, @ref penstock::Shape.
///
/// @code{.cpp}
/// const auto program = penstock::generate("zb-h1", {.stages = 2, .microbatches = 3});
/// if (!program) throw std::runtime_error(program.error());
/// for (const penstock::Action& action : program->ranks[1]) std::cout << penstock::to_text(action) << ' ';
/// std::cout << '\n';  // 1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2 1STEP
/// std::cout << penstock::find_schedule("OneFOneB")->asynchronous << '\n';  // 0
/// @endcode

#include "schedules/ir/shape.hpp"          // IWYU pragma: export
#include "schedules/rules/generators.hpp"  // IWYU pragma: export

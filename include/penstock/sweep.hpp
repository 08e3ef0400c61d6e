#pragma once
/// @file
/// Predicts one scenario for many schedules, stages, chunks and microbatches, on all cores.
///
/// Programs that use this header ask for the component: `find_package(penstock COMPONENTS studies)`.
///
/// Stable names: @ref penstock::sweep, @ref penstock::SweepGrid, @ref penstock::Sweep,
/// @ref penstock::SweepRow, @ref penstock::SweepStatus, @ref penstock::best_per_schedule,
/// @ref penstock::sweep_table, @ref penstock::sweep_csv.
///
/// @code{.cpp}
/// const penstock::Sweep points = penstock::sweep(
///     penstock::Scenario{}, {.schedules = {"gpipe", "zb-h1"}, .stages = {4}, .microbatches = {8}});
/// for (const penstock::SweepRow& row : points.rows)
///   std::cout << row.schedule << ' ' << row.makespan_ns / 1'000'000 << " ms, ";
/// std::cout << '\n';  // gpipe 33 ms, zb-h1 27 ms,
/// @endcode

#include "report/result/sweep_table.hpp"  // IWYU pragma: export
#include "sim/sweep/sweep.hpp"            // IWYU pragma: export

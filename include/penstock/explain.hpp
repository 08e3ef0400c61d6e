#pragma once
/// @file
/// Says why each rank is idle, and which causes the idle time has.
///
/// Stable names: @ref penstock::prepare, @ref penstock::Experiment, @ref penstock::caused_run,
/// @ref penstock::explained, @ref penstock::Explanation, @ref penstock::BillLine, @ref penstock::IdleCause.
///
/// @code{.cpp}
/// const auto scenario = penstock::parse_scenario(
///     "model: {stages: {forward: [1 ms, 2 ms], backward: [2 ms, 4 ms]}}\n"
///     "schedule: {name: 1f1b, stages: 2, microbatches: 4}", "example", ".");
/// const auto experiment = penstock::prepare(*scenario, penstock::ProgramForm::lowered);
/// const penstock::Explanation why = penstock::explained(penstock::caused_run(*experiment).value());
/// for (const penstock::BillLine& line : why.bill) {
///   if (line.idle_ns > 0) std::cout << line.cause << ' ' << line.idle_ns / 1'000'000 << " ms, ";
/// }
/// std::cout << '\n';  // fill 3 ms, drain 6 ms, imbalance 9 ms,
/// @endcode

#include "report/why/explanation.hpp"        // IWYU pragma: export
#include "scenarios/prepare/experiment.hpp"  // IWYU pragma: export
#include "sim/why/explain.hpp"               // IWYU pragma: export

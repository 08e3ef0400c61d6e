#pragma once
/// @file
/// Holds a prediction against a measurement of the same program.
///
/// Stable names: @ref penstock::compare_results, @ref penstock::Comparison, @ref penstock::CompareTolerances,
/// @ref penstock::CompareError, @ref penstock::comparison_to_table, @ref penstock::comparison_to_json.
///
/// @code{.cpp}
/// penstock::Scenario scenario;
/// scenario.schedule = "1f1b";
/// scenario.shape.stages = 2;
/// scenario.batch.microbatches = 4;
/// const penstock::Result predicted = penstock::simulate_scenario(scenario, {}).value();
/// penstock::Result measured = predicted;  // stands for the result of a run
/// measured.kind = penstock::ResultKind::measured;
/// const auto comparison = penstock::compare_results(predicted, measured, {});
/// std::cout << comparison->name << '\n';                               // 1f1b, K = 2, M = 4
/// std::cout << (comparison->passed() ? "holds" : "misses") << '\n';    // holds
/// @endcode

#include "report/compare/compare.hpp"  // IWYU pragma: export
#include "report/result/result.hpp"    // IWYU pragma: export

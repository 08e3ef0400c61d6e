#pragma once
/// @file
/// Holds the figures of one run, predicted or measured, and reads and writes them as JSON.
///
/// Stable names: @ref penstock::Result, @ref penstock::RankReport, @ref penstock::BubbleReport,
/// @ref penstock::ThroughputReport, @ref penstock::highest_peak_bytes, @ref penstock::any_out_of_memory,
/// @ref penstock::result_to_json, @ref penstock::result_from_json.
///
/// @code{.cpp}
/// penstock::Scenario scenario;
/// scenario.schedule = "gpipe";
/// scenario.shape.stages = 4;
/// scenario.batch.microbatches = 8;
/// const penstock::Result result = penstock::simulate_scenario(scenario, {}).value();
/// std::cout << result.bubble.idle_over_ideal << '\n';  // 0.375
/// for (const penstock::RankReport& rank : result.ranks) std::cout << rank.idle_ns / 1'000'000 << ' ';
/// std::cout << "ms\n";  // 9 9 9 9 ms
/// const auto again = penstock::result_from_json(penstock::result_to_json(result), "example");
/// std::cout << (again->makespan_ns == result.makespan_ns) << '\n';  // 1
/// @endcode

#include "report/result/result.hpp"       // IWYU pragma: export
#include "report/result/result_json.hpp"  // IWYU pragma: export

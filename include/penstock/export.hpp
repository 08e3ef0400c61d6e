#pragma once
/// @file
/// Writes a result as CSV, as a trace for Perfetto, or as an HTML page.
///
/// Stable names: @ref penstock::write_timeline_csv, @ref penstock::ranks_to_csv,
/// @ref penstock::write_chrome_trace, @ref penstock::result_to_html, @ref penstock::TextSink.
///
/// @code{.cpp}
/// penstock::Scenario scenario;
/// scenario.schedule = "1f1b";
/// scenario.shape.stages = 2;
/// scenario.batch.microbatches = 2;
/// const penstock::Result result = penstock::simulate_scenario(scenario, {}).value();
/// std::string csv;
/// penstock::write_timeline_csv(result.timeline, [&](std::string_view part) {
///   csv += part;
///   return true;  // continue
/// });
/// std::cout << csv.substr(0, 23) << '\n';                           // rank,action,stage,micro
/// std::cout << penstock::result_to_html(result).substr(0, 15) << '\n';  // <!DOCTYPE html>
/// @endcode

#include "report/pages/html_report.hpp"   // IWYU pragma: export
#include "report/print/table.hpp"         // IWYU pragma: export
#include "report/result/result_json.hpp"  // IWYU pragma: export

#pragma once
/// @file
/// Holds the start and the end of every action, and draws them as text or SVG.
///
/// Stable names: @ref penstock::Timeline, @ref penstock::Span, @ref penstock::timeline_to_text,
/// @ref penstock::timeline_to_svg.
///
/// @code{.cpp}
/// penstock::Scenario scenario;
/// scenario.schedule = "1f1b";
/// scenario.shape.stages = 2;
/// scenario.batch.microbatches = 2;
/// const penstock::Timeline timeline = penstock::simulate_scenario(scenario, {}).value().timeline;
/// for (const penstock::Span& span : timeline.spans) {
///   if (span.rank == 1 && penstock::is_compute(span.action.kind))
///     std::cout << penstock::to_text(span.action) << ' ' << span.start_ns / 1'000'000 << ' ';
/// }
/// std::cout << "ms\n";  // 1F0 1 1B0 2 1F1 4 1B1 5 1STEP 7 ms
/// std::cout << penstock::timeline_to_svg(timeline).substr(0, 4) << '\n';  // <svg
/// @endcode

#include "report/timeline/timeline.hpp"        // IWYU pragma: export
#include "report/timeline/timeline_boxes.hpp"  // IWYU pragma: export

#pragma once
/// @file
/// Includes all stable headers of Penstock. Each of them states its stable names and an example.
///
/// A program links `penstock::penstock` to predict. It needs the component `studies` to sweep and tune, and
/// the component `backend` to execute programs:
///
///     find_package(penstock 0.1 REQUIRED COMPONENTS studies backend)
///     target_link_libraries(mine PRIVATE penstock::penstock penstock::studies penstock::backend)
///
/// Names that no header below lists may change in any version.

#include "penstock/check.hpp"      // IWYU pragma: export
#include "penstock/cluster.hpp"    // IWYU pragma: export
#include "penstock/compare.hpp"    // IWYU pragma: export
#include "penstock/costs.hpp"      // IWYU pragma: export
#include "penstock/explain.hpp"    // IWYU pragma: export
#include "penstock/export.hpp"     // IWYU pragma: export
#include "penstock/import.hpp"     // IWYU pragma: export
#include "penstock/program.hpp"    // IWYU pragma: export
#include "penstock/result.hpp"     // IWYU pragma: export
#include "penstock/run.hpp"        // IWYU pragma: export
#include "penstock/scenario.hpp"   // IWYU pragma: export
#include "penstock/schedules.hpp"  // IWYU pragma: export
#include "penstock/simulate.hpp"   // IWYU pragma: export
#include "penstock/sweep.hpp"      // IWYU pragma: export
#include "penstock/timeline.hpp"   // IWYU pragma: export
#include "penstock/tune.hpp"       // IWYU pragma: export

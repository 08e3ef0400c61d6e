#pragma once
/// @file
/// Executes a program on threads of this machine, and measures it.
///
/// Programs that use this header ask for the component: `find_package(penstock COMPONENTS backend)`.
///
/// Stable names: @ref penstock::run_on_threads, @ref penstock::RunOptions, @ref penstock::OccupyFamily,
/// @ref penstock::LinkPace.
///
/// @code{.cpp}
/// penstock::Scenario scenario;
/// scenario.schedule = "1f1b";
/// scenario.shape.stages = 2;
/// scenario.batch.microbatches = 2;
/// const auto experiment = penstock::prepare(scenario, penstock::ProgramForm::lowered).value();
/// // The modules compute nothing; each action occupies its thread for its time.
/// const auto links = [](const penstock::FlatProgram&) { return penstock::LinkPace{}; };
/// const auto result = penstock::run_on_threads(experiment, links, {.warmup = 0, .repeats = 1},
///                                              penstock::OccupyFamily(experiment, {}));
/// if (!result) throw std::runtime_error(result.error().message);
/// std::cout << (result->makespan_ns >= 9'000'000) << '\n';  // 1
/// @endcode

#include "backend/executor/measured_run.hpp"   // IWYU pragma: export
#include "backend/executor/module_family.hpp"  // IWYU pragma: export
#include "backend/executor/transport.hpp"      // IWYU pragma: export
#include "backend/threads/thread_run.hpp"      // IWYU pragma: export

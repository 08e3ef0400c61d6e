#pragma once
/// @file
/// Finds the degrees, schedule and batches that train a model fastest on a cluster.
///
/// Programs that use this header ask for the component: `find_package(penstock COMPONENTS studies)`.
///
/// Stable names: @ref penstock::tune, @ref penstock::TuneRequest, @ref penstock::TuneChoices,
/// @ref penstock::TuneOptions, @ref penstock::TuneReport, @ref penstock::TunedConfiguration,
/// @ref penstock::Configuration.
///
/// @code{.cpp}
/// penstock::TuneRequest request;
/// request.base = penstock::parse_scenario(
///     "model: {transformer: {layers: 8, hidden: 1024, heads: 16, vocabulary: 32000, sequence: 1024}}\n"
///     "cluster: {device: h100-sxm, nodes: 1}\n"
///     "schedule: {name: 1f1b, stages: 1}\n"
///     "training: {micro_batch_size: 1, global_batch_size: 32}", "example", ".").value();
/// request.global_batch_size = 32;
/// request.choices.tensor = {1};
/// const auto report = penstock::tune(request, {.top = 1});
/// if (!report) throw std::runtime_error(report.error().message);
/// const penstock::Configuration& best = report->candidates.front().configuration;
/// std::cout << "data " << best.data << ", stages " << best.stages << '\n';  // data 8, stages 1
/// @endcode

#include "sim/choose/configuration.hpp"  // IWYU pragma: export
#include "sim/choose/tune.hpp"           // IWYU pragma: export

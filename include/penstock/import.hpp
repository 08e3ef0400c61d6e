#pragma once
/// @file
/// Reads configurations of Megatron-LM, torchtitan, DeepSpeed and other programs as scenarios.
///
/// Stable names: @ref penstock::import_configuration, @ref penstock::ImportRequest, @ref penstock::Imported,
/// @ref penstock::ImportedKey, @ref penstock::recognised_importer.
///
/// @code{.cpp}
/// const auto imported = penstock::import_configuration(
///     {.inputs = {{.name = "--",
///                  .text = "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 "
///                          "--vocab-size 32000 --pipeline-model-parallel-size 4 "
///                          "--micro-batch-size 1 --global-batch-size 64"}},
///      .device = "h100-sxm",
///      .devices = 4});
/// if (!imported) throw std::runtime_error(imported.error());
/// std::cout << imported->importer << '\n';  // Megatron-LM's arguments
/// const auto scenario = penstock::parse_scenario(imported->yaml, "imported", ".");
/// std::cout << "K = " << scenario->shape.stages << '\n';  // K = 4
/// @endcode

#include "scenarios/import/importers.hpp"  // IWYU pragma: export
#include "scenarios/import/settings.hpp"   // IWYU pragma: export

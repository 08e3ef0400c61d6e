#pragma once
// Declares what is only available with LibTorch: the module family that runs a network on cpu-thread and
// cpu-process, and the profile of the network's layers. This header includes no header of LibTorch.

#include <memory>
#include <string>

#include <tl/expected.hpp>

#include "backend/calibration/calibration_samples.hpp"
#include "backend/executor/module_family.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock::nn {

/// Returns the family of modules that train experiment.network on the CPU. The experiment must have a
/// network and outlive the result. This function switches off LibTorch's own threads for the whole process,
/// so each stage computes on the thread that calls it. Fails if cut_network() fails.
tl::expected<std::unique_ptr<ModuleFamily>, std::string> network_family(const Experiment& experiment);

// Measures each layer of a network separately, like PipeDream's profiler (Narayanan et al., SOSP'19, section
// 3.1). `penstock profile` writes the result, and `penstock plan` reads it.

/// Measures each piece of the network on the calling thread: the times of F and B, the output bytes and the
/// weight bytes. Returns them as a graph of layers. A layer has the name of piece_name() and the inputs of
/// the piece. Fails if make_network() fails.
tl::expected<LayerGraph, std::string> profile_network(const NetworkSpec& spec, const ProfileOptions& options);

}  // namespace penstock::nn

#pragma once
// Measures the layers of a network one by one, as PipeDream's profiler does (Narayanan et al., SOSP'19,
// section 3.1): what `penstock profile` writes and `penstock plan` reads.

#include <string>
#include <tl/expected.hpp>

#include "backend/calibration/profile_options.hpp"
#include "scenarios/model/model.hpp"

namespace penstock::nn {

/// Forward and full backward of each piece on the calling thread, outputs and weights in bytes. Layers are
/// called as piece_name() has it, and their inputs are those of the model. Errors: as make_network().
tl::expected<LayerGraph, std::string> profile_network(const NetworkSpec& spec, const ProfileOptions& options);

}  // namespace penstock::nn

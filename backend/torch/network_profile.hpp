#pragma once
// Measures the layers of a network one by one, like PipeDream's profiler (Narayanan et al., SOSP'19, section
// 3.1). `penstock profile` writes the result, and `penstock plan` reads it.

#include <string>
#include <tl/expected.hpp>

#include "backend/calibration/profile_options.hpp"
#include "scenarios/model/model.hpp"

namespace penstock::nn {

/// Measures forward and full backward of each piece on the calling thread, and its output and weights in
/// bytes. Layers have the names of piece_name() and the inputs of the model. Errors: those of make_network().
tl::expected<LayerGraph, std::string> profile_network(const NetworkSpec& spec, const ProfileOptions& options);

}  // namespace penstock::nn

#pragma once
// Measures each layer of a network separately, like PipeDream's profiler (Narayanan et al., SOSP'19, section
// 3.1). `penstock profile` writes the result, and `penstock plan` reads it.

#include <string>
#include <tl/expected.hpp>

#include "backend/calibration/profile_options.hpp"
#include "scenarios/model/model.hpp"

namespace penstock::nn {

/// Measures each piece of the network on the calling thread: times of F and B, output bytes and weight bytes.
/// The layers of the result have the names of piece_name(), and the inputs of the pieces. Error:
/// make_network() fails.
tl::expected<LayerGraph, std::string> profile_network(const NetworkSpec& spec, const ProfileOptions& options);

}  // namespace penstock::nn

#pragma once
// A network that was exported from PyTorch by tools/export_stages.py. Each exported stage is one piece of the
// model, so a user's own module runs under every schedule.

#include <cstdint>
#include <string>

#include <tl/expected.hpp>

#include "backend/torch/networks.hpp"

namespace penstock::nn {

/// Reads `folder`/stages.json and the TorchScript file of each stage. The samples of a microbatch must be
/// those of the exported example, because a graph holds for one shape. Errors: a file is missing or cannot be
/// read, it has another format, or `samples` differs. The error names the file.
tl::expected<Network, std::string> graph_network(const std::string& folder, std::int64_t samples);

}  // namespace penstock::nn

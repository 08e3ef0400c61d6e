#pragma once
// A network that was exported from PyTorch by tools/export_stages.py. Each exported stage is one piece of the
// model, so a user's own module runs under every schedule.

#include <cstdint>
#include <string>

#include <tl/expected.hpp>

#include "backend/torch/networks.hpp"

namespace penstock::nn {

/// Returns the network that was exported to `folder`. It reads `folder`/stages.json and the TorchScript
/// file of each stage. `samples` must be the number of samples in the exported example, because an exported
/// graph is valid for one shape only. Fails if a file is missing, cannot be read or has another format, or
/// if `samples` differs. The error names the file.
tl::expected<Network, std::string> graph_network(const std::string& folder, std::int64_t samples);

}  // namespace penstock::nn

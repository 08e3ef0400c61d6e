#pragma once
// Models of random layers on small clusters, for tests of plans.

#include <cstdint>
#include <random>
#include <string>

#include <fmt/format.h>

namespace penstock {

/// Layers of random times and sizes on servers whose links are slow enough to matter.
inline std::string random_model(std::mt19937& random, std::int32_t layers, std::int32_t servers,
                                std::int32_t size) {
  const auto between = [&](std::int32_t least, std::int32_t most) {
    return std::uniform_int_distribution<std::int32_t>(least, most)(random);
  };
  std::string text = "model: {layers: [";
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    text += fmt::format("{}{{name: l{}, forward: {} us, backward: {} us, output: {} kB, weights: {} kB}}",
                        layer == 0 ? "" : ", ", layer, between(100, 4000), between(200, 8000),
                        between(10, 8000), between(0, 3) == 0 ? 0 : between(10, 30000));
  }
  text += fmt::format(
      "]}}\ncluster: {{preset: two-level, nodes: {}, devices_per_node: {}, intra_bandwidth: {} MB/s, "
      "inter_bandwidth: {} MB/s}}\n",
      servers, size, between(2000, 12000), between(500, 3000));
  return text + "training: {micro_batch_size: 1}\n";
}

}  // namespace penstock

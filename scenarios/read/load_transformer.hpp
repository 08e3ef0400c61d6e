#pragma once
// Reads the two forms of `model:` that are an analytic transformer. Used by load_model.cpp.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/keys.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// The layers of a transformer for one sample, and the assumptions about them.
struct TransformerPart {
  LayerGraph graph;
  std::int32_t devices_per_rank = 1;      ///< the transformer's tensor_parallel
  Precision precision = Precision::full;  ///< mixed if its values have 2 bytes
  std::vector<std::string> notes;
};

/// Reads `model.transformer` for the devices of the cluster.
TransformerPart read_transformer(const Node& node, const ClusterSpec& cluster, Problem& problem);

/// Reads `model.huggingface: FILE`. The config.json gives the sizes, and `model` gives the other keys of a
/// transformer.
TransformerPart read_huggingface(const MappingReader& model, const ClusterSpec& cluster, Problem& problem);

/// Returns all keys of `model.transformer`.
std::span<const Key> keys_of_transformer();

/// Notes a problem for each key that has no meaning if `cluster.device` names the device, such as efficiency
/// and tensor_parallel. It checks keys of `model.transformer` and keys beside `huggingface`.
void refuse_keys_without_device(const MappingReader& model);

/// Returns the keys of `model:` that belong to `huggingface`.
std::span<const Key> keys_beside_huggingface();

}  // namespace penstock

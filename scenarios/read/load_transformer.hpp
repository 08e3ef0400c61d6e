#pragma once
// The two forms of `model:` that are an analytic transformer. Part of the schema, used by load_model.cpp.

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

/// Layers for one sample, and what was assumed for them.
struct TransformerPart {
  LayerGraph graph;
  std::int32_t devices_per_rank = 1;      ///< its tensor_parallel
  Precision precision = Precision::full;  ///< mixed where its values have 2 bytes
  std::vector<std::string> notes;
};

/// `model.transformer`, on the cluster's devices.
TransformerPart read_transformer(const Node& node, const ClusterSpec& cluster, Problem& problem);

/// `model.huggingface: FILE`, a config.json that gives the sizes; the other keys of a transformer are the
/// model's own.
TransformerPart read_huggingface(const MappingReader& model, const ClusterSpec& cluster, Problem& problem);

/// All keys of `model.transformer`.
std::span<const Key> keys_of_transformer();

/// Notes a problem for each key that says what a device does with a model where `cluster.device` says it:
/// efficiency, tensor_parallel, ..; of `model.transformer` or beside `huggingface`.
void refuse_keys_without_device(const MappingReader& model);

/// The keys of `model:` that belong to `huggingface`.
std::span<const Key> keys_beside_huggingface();

}  // namespace penstock

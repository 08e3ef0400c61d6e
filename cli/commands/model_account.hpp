#pragma once
// Describes a model layer by layer. It computes the times and bytes of each layer on one device.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/load_architecture.hpp"

namespace penstock {

/// A group of equal layers, with the figures of one of them.
struct LayerAccount {
  std::string name;
  std::int64_t count = 1;
  std::int64_t parameters = 0;  ///< the number of parameters of one layer
  /// bytes that one layer stores on a device between its forward and its backward pass
  std::optional<double> kept_bytes{};
  std::vector<Term> terms{};  ///< cost terms of one layer on a device
};

struct ModelAccount {
  ArchitecturePart part;
  std::optional<Workload> work{};  ///< the devices and parallel degrees; if absent, only parameters are known
  std::vector<LayerAccount> layers;
};

/// Returns the account of a model. Without `work` it has only parameters. The model and the sequence length
/// of `work` are replaced by those of `part`. It is an error if there is no sequence length, if the degrees
/// do not divide the model, or if the device lacks the precision.
tl::expected<ModelAccount, std::string> account_of(ArchitecturePart part, std::optional<Workload> work);

std::string model_text(const ModelAccount& account);
/// Returns a JSON object: {schema_version, kind: "model", family, parameters, active_parameters,
/// weight_bytes, flops_per_sample, device, layers: [{name, count, parameters, kept_bytes, terms: [{name,
/// kind, forward_ns, backward_ns}]}], ignored, notes}.
std::string model_json(const ModelAccount& account);

}  // namespace penstock

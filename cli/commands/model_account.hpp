#pragma once
// Describes a model layer by layer, with times and bytes of its layers on one device.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/load_architecture.hpp"

namespace penstock {

/// A group of equal layers.
struct LayerAccount {
  std::string name;
  std::int64_t count = 1;
  std::int64_t parameters = 0;         ///< of one layer
  std::optional<double> kept_bytes{};  ///< bytes that one layer stores from forward to backward, on a device
  std::vector<Term> terms{};           ///< terms of one layer on a device
};

struct ModelAccount {
  ArchitecturePart part;
  std::optional<Workload> work{};  ///< devices and degrees; absent: only parameters are known
  std::vector<LayerAccount> layers;
};

/// Returns the account. Without `work` it has only parameters. The model and the sequence of `work` are
/// replaced by those of `part`. Errors: no sequence; degrees that do not divide; a precision that the device
/// lacks.
tl::expected<ModelAccount, std::string> account_of(ArchitecturePart part, std::optional<Workload> work);

std::string model_text(const ModelAccount& account);
/// Returns {schema_version, kind: "model", family, parameters, active_parameters, weight_bytes,
/// flops_per_sample, device, layers: [{name, count, parameters, kept_bytes, terms: [{name, kind, forward_ns,
/// backward_ns}]}], ignored, notes}.
std::string model_json(const ModelAccount& account);

}  // namespace penstock

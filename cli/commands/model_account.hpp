#pragma once
// What a model is, layer by layer, and what its layers take and hold on one device.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/load_architecture.hpp"

namespace penstock {

/// Layers that are alike.
struct LayerAccount {
  std::string name;
  std::int64_t count = 1;
  std::int64_t parameters = 0;         ///< of one
  std::optional<double> kept_bytes{};  ///< of one from forward to backward, on a device
  std::vector<Term> terms{};           ///< of one, on a device
};

struct ModelAccount {
  ArchitecturePart part;
  std::optional<Workload> work{};  ///< on which device and how shared out; absent: parameters alone
  std::vector<LayerAccount> layers;
};

/// Without `work` parameters alone; its model and sequence are taken from `part`. Errors: no sequence,
/// degrees that do not divide, a precision that the device does not have.
tl::expected<ModelAccount, std::string> account_of(ArchitecturePart part, std::optional<Workload> work);

std::string model_text(const ModelAccount& account);
/// {schema_version, kind: "model", family, parameters, active_parameters, weight_bytes, flops_per_sample,
/// device, layers:
/// [{name, count, parameters, kept_bytes, terms: [{name, kind, forward_ns, backward_ns}]}], ignored, notes}
std::string model_json(const ModelAccount& account);

}  // namespace penstock

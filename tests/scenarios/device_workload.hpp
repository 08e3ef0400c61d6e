#pragma once
// Workloads of library models on devices, for tests of prices.

#include <string>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "tests/test_files.hpp"
#include "topology/presets.hpp"

namespace penstock {

/// Returns the model in the configuration scenarios/library/models/NAME.json.
inline Architecture library_architecture(const std::string& name) {
  ArchitectureRequest request;
  request.config = source_path("scenarios/library/models/" + name + ".json");
  return load_architecture(request).value().architecture;
}

/// Returns the workload of one microbatch with one sample on one device, without parallelism.
inline Workload workload_on(const std::string& device, const std::string& model, std::int64_t sequence) {
  Workload work;
  work.model = library_architecture(model);
  work.sequence = sequence;
  work.device = *find_device_type(device);
  return work;
}

/// Returns the kernels that were measured on the workload's device.
inline const KernelTables& kernels_of(const Workload& work) { return *built_in_kernels(work.device); }

}  // namespace penstock

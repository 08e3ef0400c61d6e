#pragma once
// Training steps that somebody measured, read from a CSV file: a configuration a row, as a scenario.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/pricing/kernel_library.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/read/scenario.hpp"
#include "topology/device_types.hpp"

namespace penstock {

/// One measured configuration.
struct MeasuredRun {
  std::string id;
  std::string source;     ///< who measured it
  std::string model;      ///< as the file names it
  std::string device;     ///< "h100-sxm"
  std::string precision;  ///< "bf16", "fp8", "fp4"
  Scenario scenario{};
  double step_seconds = 0;
  std::optional<double> peak_gib{};  ///< of the fullest device, as its allocator says; absent: not measured
  std::vector<std::string> cells{};  ///< of the file's row
};

/// The name of a model's file without folder and suffix: "../models/gpt3-175b.json" as "gpt3-175b".
std::string model_name(const std::string& file);

struct MeasuredRuns {
  std::vector<std::string> header;
  std::vector<MeasuredRun> runs;
};

/// The tables that a kind of device is priced from.
using KernelsOf = std::function<std::shared_ptr<const KernelTables>(const DeviceType& device)>;

/// Columns: id, source, model (a config.json, relative to the file), device, precision, devices, tensor,
/// stages, virtual_stages, context, context_exchange, expert, data, micro_batch_size, microbatches (of one
/// copy of the pipeline), sequence, layers, layer_split, schedule, recompute, tensor_overlap, data_overlap,
/// gradient_bytes, step_seconds, peak_gib; and `order` where it is not the default. Others are kept as they
/// are. Errors: "FILE:LINE: COLUMN: expected .., got ..".
tl::expected<MeasuredRuns, std::string> read_measured_runs(const std::string& file,
                                                           const KernelsOf& kernels_of = built_in_kernels);

/// The same of a text that is at hand; `text_of` gives that of a model by the name that the file has for it.
using TextOfModel = std::function<tl::expected<std::string, std::string>(const std::string& model)>;
tl::expected<MeasuredRuns, std::string> parse_measured_runs(std::string_view text, const std::string& file,
                                                            const TextOfModel& text_of,
                                                            const KernelsOf& kernels_of = built_in_kernels);

}  // namespace penstock

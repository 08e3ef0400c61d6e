#pragma once
// Reads measured training steps from a CSV file with one configuration a row, and makes a scenario of each
// row.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/read/scenario.hpp"
#include "topology/device_types.hpp"

namespace penstock {

/// One measured configuration.
struct MeasuredRun {
  std::string id;
  std::string source;     ///< name of the publication or site that measured it
  std::string model;      ///< name of the model in the file
  std::string device;     ///< for example "h100-sxm"
  std::string precision;  ///< "bf16", "fp8" or "fp4"
  std::string release{};  ///< software or round of the measurement; empty: not stated
  Scenario scenario{};
  double step_seconds = 0;
  /// Peak on the fullest device, as its allocator reports it; absent: not measured.
  std::optional<double> peak_gib{};
  std::vector<std::string> cells{};  ///< cells of the row in the file
};

/// Returns the name of a model's file without folder and suffix: "gpt3-175b" for "../models/gpt3-175b.json".
std::string model_name(const std::string& file);

/// A row that cannot be predicted, because its device is not known or its model has no price.
struct LeftOutRun {
  std::size_t line = 1;  ///< line in the file
  std::string id;
  std::string why;
};

struct MeasuredRuns {
  std::vector<std::string> header;
  std::vector<MeasuredRun> runs;
  std::vector<LeftOutRun> left_out{};
};

/// A function that returns the tables of kernel times from which a kind of device is priced.
using KernelsOf = std::function<std::shared_ptr<const KernelTables>(const DeviceType& device)>;

/// Reads a CSV file. It must have the columns source, model (a config.json, relative to the file, or the name
/// of one in the folder `models` beside it), device, precision, devices, tensor, stages, micro_batch_size,
/// microbatches (of one copy of the pipeline), sequence, schedule, recompute and step_seconds. A row without
/// one of the next columns, or with an empty cell there, has the value in brackets: id (its line), release
/// (none), virtual_stages (1), context (1), context_exchange (ring), expert (1), data (as many copies as
/// `devices` has room for), layers (all), layer_split (even), tensor_overlap and data_overlap (yes),
/// gradient_bytes (4), peak_gib (not measured), order (the default order), sharding (1). Other columns are
/// retained as they are. Rows with an unknown device or without a priced model are left out. Errors:
/// "FILE:LINE: COLUMN: expected .., got ..", and the reason of the first row if all rows are left out.
tl::expected<MeasuredRuns, std::string> read_measured_runs(const std::string& file,
                                                           const KernelsOf& kernels_of = built_in_kernels);

/// A function that returns the text of a model's file, given the name that the CSV file has for it.
using TextOfModel = std::function<tl::expected<std::string, std::string>(const std::string& model)>;
tl::expected<MeasuredRuns, std::string> parse_measured_runs(std::string_view text, const std::string& file,
                                                            const TextOfModel& text_of,
                                                            const KernelsOf& kernels_of = built_in_kernels);

// The measured training steps of scenarios/library/runs. They are compiled in, so that no caller needs their
// files.

/// Returns the runs of training_steps.csv.
MeasuredRuns library_runs();

}  // namespace penstock

#pragma once
// Reads measured training steps from a CSV file. Each row is one configuration and becomes a scenario.

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
#include "topology/presets.hpp"

namespace penstock {

/// One measured configuration, with the scenario that predicts it.
struct MeasuredRun {
  std::string id;
  std::string source;     ///< name of the publication or the site that has published the measurement
  std::string model;      ///< the model's name or path, as in the file
  std::string device;     ///< for example "h100-sxm"
  std::string precision;  ///< "bf16", "fp8" or "fp4"
  /// Software release or benchmark round of the measurement; empty if it is not stated.
  std::string release{};
  Scenario scenario{};
  double step_seconds = 0;
  /// Peak memory of the fullest device in GiB, as its allocator reports it. Absent if it was not measured.
  std::optional<double> peak_gib{};
  std::vector<std::string> cells{};  ///< all cells of the row in the file
};

/// A device with the memory and the power limit that a text states. Both may differ from the usual ones.
struct DescribedDevice {
  DeviceType type;
  std::string name;  ///< the device's name, followed by memory and power if the text states unusual values
};
/// Reads a device and its properties from a text. Figures of memory and power may follow the name, as in
/// "h100 96 GB 2.4 TB/s 500 W" or "NVIDIA H100 80GB HBM3". A power limit below the usual one slows matrix
/// products and attention. Other words are ignored. Returns nothing for an unknown device or an unknown unit.
std::optional<DescribedDevice> described_device(std::string_view text);

/// Returns the name of a model from the name of its file, without folder and suffix: "gpt3-175b" for
/// "../models/gpt3-175b.json". `file` may also be the text of a config.json. Then the result is its value
/// of "_name_or_path".
std::string model_name(const std::string& file);

/// A row that cannot be predicted, because its device or its model is not known.
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

/// A function that returns the tables of measured kernel times for a device type.
using KernelsOf = std::function<std::shared_ptr<const KernelTables>(const DeviceType& device)>;

/// Reads a CSV file. It must have the columns source, model, device (see described_device()), precision,
/// devices, tensor, stages, micro_batch_size, microbatches, sequence, schedule, recompute and step_seconds.
/// The cell of `model` is the path of a config.json relative to the file, the name of one in the folder
/// `models` beside it, or its text. `microbatches` is the number for one copy of the pipeline.
/// The next columns are optional. If a column or its cell is missing, the value in brackets is used: id (its
/// line), release (none), virtual_stages (1), context (1), context_exchange (ring), expert (1), data (as many
/// copies as fit on `devices`), layers (all), layer_split (even), tensor_overlap and data_overlap (yes),
/// gradient_bytes (4), peak_gib (not measured), order (the default order), sharding (1), framework
/// (megatron-te), sequence_parallel (yes), expert_dispatch (alltoall), fp8_dispatch and expert_overlap (no).
/// Other columns are stored unchanged.
/// Rows with an unknown device or framework, or without a priced model, are left out. If all rows are left
/// out, the error states the reason for the first one. Other errors have the form "FILE:LINE: COLUMN:
/// expected .., got ..".
tl::expected<MeasuredRuns, std::string> read_measured_runs(const std::string& file,
                                                           const KernelsOf& kernels_of = built_in_kernels);

/// A function that returns the text of a model's file. Its argument is the model's name or path in the CSV
/// file.
using TextOfModel = std::function<tl::expected<std::string, std::string>(const std::string& model)>;
tl::expected<MeasuredRuns, std::string> parse_measured_runs(std::string_view text, const std::string& file,
                                                            const TextOfModel& text_of,
                                                            const KernelsOf& kernels_of = built_in_kernels);

/// Returns the measured runs in the library's training_steps.csv. The text of this file is built into the
/// program, so the file need not exist at run time.
MeasuredRuns library_runs();
/// Returns the measured runs in all the library's files of training steps.
MeasuredRuns all_library_runs();

}  // namespace penstock

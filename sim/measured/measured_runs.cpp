// Reads measured runs and makes of each row the scenario that its cells describe. All rows share settings
// that no column states: sequence parallelism with tensor parallelism, a distributed optimizer, Adam, fused
// attention and loss. measured_iterations.cpp reads the other format, whose models are given by sizes. Tests:
// tests/sim/measured_runs_test.cpp.

#include "sim/measured/measured_runs.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/device_model.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_recompute.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "text/csv_table.hpp"
#include "text/numbers.hpp"
#include "topology/device_types.hpp"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 25> kRunColumns = {
    "id",       "source",           "model",          "device",       "precision",        "devices",
    "tensor",   "stages",           "virtual_stages", "context",      "context_exchange", "expert",
    "data",     "micro_batch_size", "microbatches",   "sequence",     "layers",           "layer_split",
    "schedule", "recompute",        "tensor_overlap", "data_overlap", "gradient_bytes",   "step_seconds",
    "peak_gib"};

/// Reads the cells of one row and remembers its first fault.
class RowReader {
 public:
  RowReader(const CsvTable& table, std::size_t row) : table_(table), row_(row) {}

  const std::string& text(std::string_view column) const { return table_.cell(row_, column); }
  bool has(std::string_view column) const { return table_.has(column) && !text(column).empty(); }

  std::int64_t count(std::string_view column) {
    const auto value = number_of_text<std::int64_t>(text(column));
    if (value && *value >= 1 && *value <= kMost) return *value;
    expected(column, fmt::format("a whole number from 1 to {}", kMost));
    return 1;
  }
  std::int32_t small(std::string_view column) { return static_cast<std::int32_t>(count(column)); }

  double seconds(std::string_view column) {
    const auto value = finite_number(text(column));
    if (value && *value > 0) return *value;
    expected(column, "a number above 0");
    return 1;
  }

  /// Reads "yes" or "no".
  bool flag(std::string_view column) {
    if (text(column) == "yes" || text(column) == "no") return text(column) == "yes";
    expected(column, "yes or no");
    return false;
  }

  /// Reads a value of an enum by its word.
  template <EnumWithWords Enum>
  Enum choice(std::string_view column) {
    const auto value = enum_of_text<Enum>(text(column));
    if (!value) expected(column, fmt::format("one of {}", fmt::join(words_of<Enum>(), ", ")));
    return value.value_or(kEnumWords<Enum>.front().value);
  }

  void expected(std::string_view column, std::string_view what) {
    refuse(column, fmt::format("expected {}, got \"{}\"", what, text(column)));
  }
  /// Records a message about a cell, if it is the first fault of the row.
  void refuse(std::string_view column, std::string_view message) {
    if (fault_.empty()) fault_ = fmt::format("{}: {}: {}", table_.line(row_), column, message);
  }
  const std::string& fault() const { return fault_; }

 private:
  static constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const CsvTable& table_;
  std::size_t row_;
  std::string fault_;
};

/// Caches the architectures by file and number of layers, so that each is read once.
class Architectures {
 public:
  explicit Architectures(const TextOfModel& text_of) : text_of_(text_of) {}

  tl::expected<Architecture, std::string> of(const std::string& model, std::int64_t layers) {
    const auto key = std::pair(model, layers);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    auto text = text_of_(model);
    if (!text) return tl::unexpected(text.error());
    ArchitectureRequest request;
    request.config = model;
    request.text = *std::move(text);
    request.layers = layers;
    const auto part = load_architecture(request);
    if (!part) return tl::unexpected(part.error());
    return known_.emplace(key, part->architecture).first->second;
  }

 private:
  const TextOfModel& text_of_;
  std::map<std::pair<std::string, std::int64_t>, Architecture> known_;
};

/// Returns the parallelism of a row. Sequence parallelism and the distributed optimizer are Parallel's
/// defaults.
Parallel parallel_of(RowReader& row) {
  Parallel parallel{.tensor = row.small("tensor"),
                    .context = row.small("context"),
                    .expert = row.small("expert"),
                    .data = row.small("data"),
                    .tensor_overlap = row.flag("tensor_overlap"),
                    .data_overlap = row.flag("data_overlap")};
  if (row.has("context_exchange"))
    parallel.context_exchange = row.choice<ContextExchange>("context_exchange");
  if (row.has("order")) parallel.order = row.choice<PlacementOrder>("order");
  return parallel;
}

DeviceModel model_of(RowReader& row, const DeviceType& device, const KernelsOf& kernels_of) {
  DeviceModel model;
  model.work.sequence = row.count("sequence");
  model.work.parallel = parallel_of(row);
  model.work.device = device;
  model.work.precision = row.choice<GemmPrecision>("precision");
  model.work.recompute = row.choice<LayerRecompute>("recompute");
  model.work.gradient_bytes = row.small("gradient_bytes");
  if (model.work.gradient_bytes != 2 && model.work.gradient_bytes != 4)
    row.expected("gradient_bytes", "2 or 4");
  if (const auto split = parse_layer_split(row.text("layer_split"))) {
    model.split = *split;
  } else {
    row.refuse("layer_split", split.error());
  }
  model.kernels = kernels_of(device);
  model.devices = row.count("devices");
  model.copies = model.work.parallel.data;
  return model;
}

/// Makes the run of a row. Error: the row's first fault, which names its line, or the fault of its model's
/// file.
tl::expected<MeasuredRun, std::string> run_of(RowReader& row, Architectures& architectures,
                                              const KernelsOf& kernels_of) {
  const DeviceType* device = find_device_type(row.text("device"));
  if (device == nullptr) row.expected("device", fmt::format("one of {}", device_type_names()));
  if (find_schedule(row.text("schedule")) == nullptr)
    row.expected("schedule", "a schedule's name, as `penstock schedules` lists them");
  if (!row.fault().empty()) return tl::unexpected(row.fault());
  // The device is valid from here on. Other cells may still have faults.
  DeviceModel model = model_of(row, *device, kernels_of);
  MeasuredRun run{.id = row.text("id"),
                  .source = row.text("source"),
                  .model = row.text("model"),
                  .device = device->name,
                  .precision = row.text("precision")};
  run.step_seconds = row.seconds("step_seconds");
  if (row.has("peak_gib")) run.peak_gib = row.seconds("peak_gib");
  const std::int64_t layers = row.count("layers");
  Scenario& scenario = run.scenario;
  scenario.schedule = row.text("schedule");
  scenario.shape.stages = row.small("stages");
  scenario.shape.virtual_stages = row.small("virtual_stages");
  scenario.batch.micro_batch_size = row.count("micro_batch_size");
  scenario.batch.microbatches = row.count("microbatches");
  // After a fault the cells hold placeholder values, from which no scenario may be built.
  if (!row.fault().empty()) return tl::unexpected(row.fault());
  const auto architecture = architectures.of(run.model, layers);
  if (!architecture) return tl::unexpected(architecture.error());
  model.work.model = *architecture;
  scenario.model = std::move(model);
  return run;
}

}  // namespace

std::string model_name(const std::string& file) {
  const std::size_t begin = file.rfind('/') + 1;  // 0 without a folder: npos + 1 wraps to 0
  return file.substr(begin, file.rfind('.') - begin);
}

tl::expected<MeasuredRuns, std::string> read_measured_runs(const std::string& file,
                                                           const KernelsOf& kernels_of) {
  const auto text = read_text_file(file, file);
  if (!text) return tl::unexpected(text.error());
  const std::filesystem::path directory = std::filesystem::path(file).parent_path();
  const auto text_of = [&](const std::string& model) {
    return read_text_file(directory / model, (directory / model).string());
  };
  return parse_measured_runs(*text, file, text_of, kernels_of);
}

tl::expected<MeasuredRuns, std::string> parse_measured_runs(std::string_view text, const std::string& file,
                                                            const TextOfModel& text_of,
                                                            const KernelsOf& kernels_of) {
  const auto table = CsvTable::parse(text, kRunColumns);
  if (!table) return tl::unexpected(fmt::format("{}:{}", file, table.error()));
  MeasuredRuns runs{.header = table->header(), .runs = {}};
  Architectures architectures(text_of);
  for (std::size_t i = 0; i < table->row_count(); ++i) {
    RowReader row(*table, i);
    auto run = run_of(row, architectures, kernels_of);
    if (!run) {
      // A fault of the row already names its line; a fault of a model's file does not.
      const bool is_of_row = run.error() == row.fault();
      return tl::unexpected(is_of_row ? fmt::format("{}:{}", file, run.error())
                                      : fmt::format("{}:{}: model: {}", file, table->line(i), run.error()));
    }
    run->cells = table->cells(i);
    runs.runs.push_back(*std::move(run));
  }
  if (runs.runs.empty())
    return tl::unexpected(fmt::format("{}: expected rows below the columns, got none", file));
  return runs;
}

}  // namespace penstock

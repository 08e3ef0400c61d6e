// Reads measured runs and converts each row to the scenario that its cells describe. Some settings have no
// column and are the same for all rows, such as Adam. measured_iterations.cpp reads the other format, in
// which a row describes a model by its sizes. Tests: tests/sim/measured_runs_test.cpp.

#include "sim/hold/measured_runs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/host/library_texts.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/pricing/chain_costs.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "schedules/rules/generators.hpp"
#include "text/csv_table.hpp"
#include "text/numbers.hpp"
#include "topology/presets.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

/// The columns that every file must have.
constexpr std::array<std::string_view, 13> kRunColumns = {
    "source",           "model",        "device",   "precision", "devices",   "tensor",      "stages",
    "micro_batch_size", "microbatches", "sequence", "schedule",  "recompute", "step_seconds"};

/// A reader of the cells in one row. It stores a message about the first fault.
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
  /// Reads a number like small(), but returns `usual` if the cell is empty or missing.
  std::int32_t small_or(std::string_view column, std::int32_t usual) {
    return has(column) ? small(column) : usual;
  }

  double seconds(std::string_view column) {
    const auto value = finite_number(text(column));
    if (value && *value > 0) return *value;
    expected(column, "a number above 0");
    return 1;
  }

  /// Reads "yes" or "no". Returns `usual` if the cell is empty or missing.
  bool flag_or(std::string_view column, bool usual) {
    if (!has(column)) return usual;
    if (text(column) == "yes" || text(column) == "no") return text(column) == "yes";
    expected(column, "yes or no");
    return false;
  }

  /// Reads a cell whose text is a word for a value of the enum.
  template <EnumWithWords Enum>
  Enum choice(std::string_view column) {
    const auto value = enum_of_text<Enum>(text(column));
    if (!value) expected(column, fmt::format("one of {}", fmt::join(words_of<Enum>(), ", ")));
    return value.value_or(kEnumWords<Enum>.front().value);
  }

  void expected(std::string_view column, std::string_view what) {
    refuse(column, fmt::format("expected {}, got \"{}\"", what, text(column)));
  }
  /// Records a message about a cell, unless the row already has a fault. Only the first fault is reported.
  void refuse(std::string_view column, std::string_view message) {
    if (fault_.empty()) fault_ = fmt::format("{}: {}: {}", table_.line(row_), column, message);
  }
  const std::string& fault() const { return fault_; }
  std::size_t line() const { return table_.line(row_); }

 private:
  static constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const CsvTable& table_;
  std::size_t row_;
  std::string fault_;
};

/// Returns true if the cell contains a config.json itself, and not the name of a file.
bool is_text_of_model(std::string_view model) { return model.starts_with('{'); }

/// A cache of architectures by file and number of layers, so that each is read once.
class Architectures {
 public:
  explicit Architectures(const TextOfModel& text_of) : text_of_(text_of) {}

  /// Returns the architecture of the model with its first `layers` layers, or with all layers if `layers` is
  /// absent.
  tl::expected<Architecture, std::string> of(const std::string& model, std::optional<std::int64_t> layers) {
    const auto key = std::pair(model, layers);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    auto text = is_text_of_model(model) ? model : text_of_(model);
    if (!text) return tl::unexpected(text.error());
    ArchitectureRequest request;
    request.config = is_text_of_model(model) ? model_name(model) : model;
    request.text = *std::move(text);
    request.layers = layers;
    const auto part = load_architecture(request);
    if (!part) return tl::unexpected(part.error());
    return known_.emplace(key, part->architecture).first->second;
  }

 private:
  const TextOfModel& text_of_;
  std::map<std::pair<std::string, std::optional<std::int64_t>>, Architecture> known_;
};

/// Returns the number of copies of the pipeline with which all devices of the row are used.
std::int32_t copies_of(RowReader& row, const Parallel& parallel) {
  const std::int64_t devices = row.count("devices");
  const std::int64_t one = std::int64_t{parallel.devices_per_rank()} * row.count("stages");
  if (devices % one != 0)
    row.expected("devices", fmt::format("a multiple of tensor x context x stages, {}", one));
  return static_cast<std::int32_t>(std::max<std::int64_t>(1, devices / one));
}

/// Returns the placement order of parallelisms in a row. A row may leave out the experts, as in
/// "tp-cp-pp-dp". This does not change the meaning, because experts use devices of the other groups.
PlacementOrder order_of(RowReader& row) {
  if (row.text("order") == "tp-cp-pp-dp") return PlacementOrder::tp_cp_ep_pp_dp;
  return row.choice<PlacementOrder>("order");
}

/// Returns the degrees of parallelism in a row. Sequence parallelism has no column and keeps the default in
/// Parallel.
Parallel parallel_of(RowReader& row) {
  Parallel parallel{.tensor = row.small("tensor"),
                    .context = row.small_or("context", 1),
                    .expert = row.small_or("expert", 1),
                    .data_overlap = row.flag_or("data_overlap", true)};
  // After a fault, degrees may be so large that their product overflows, so no copies are computed.
  if (!row.fault().empty()) return parallel;
  parallel.data = row.has("data") ? row.small("data") : copies_of(row, parallel);
  if (row.has("context_exchange"))
    parallel.context_exchange = row.choice<ContextExchange>("context_exchange");
  if (row.has("order")) parallel.order = order_of(row);
  parallel.sequence_parallel = row.flag_or("sequence_parallel", parallel.sequence_parallel);
  if (row.has("expert_dispatch")) parallel.expert_dispatch = row.choice<ExpertDispatch>("expert_dispatch");
  parallel.fp8_dispatch = row.flag_or("fp8_dispatch", false);
  parallel.expert_overlap = row.flag_or("expert_overlap", false);
  return parallel;
}

/// Returns the degree of ZeRO sharding in the row, or nothing if the row does not state it.
std::optional<std::int32_t> sharding_of(RowReader& row) {
  if (!row.has("sharding")) return std::nullopt;
  const auto value = number_of_text<std::int32_t>(row.text("sharding"));
  if (value && *value >= 0 && *value <= 3) return value;
  row.expected("sharding", "0, 1, 2 or 3");
  return std::nullopt;
}

/// Returns the framework of a row. If the row states none, its source may be the name of a framework.
/// Otherwise the framework is Megatron-LM with Transformer Engine.
Framework framework_of(RowReader& row) {
  if (row.has("framework")) return row.choice<Framework>("framework");
  return enum_of_text<Framework>(row.text("source")).value_or(Framework::megatron_te);
}

DeviceModel model_of(RowReader& row, const DeviceType& device, const KernelsOf& kernels_of) {
  DeviceModel model;
  model.work.sequence = row.count("sequence");
  model.work.parallel = parallel_of(row);
  model.work.device = device;
  model.work.precision = row.choice<GemmPrecision>("precision");
  if (const auto recompute = parse_recompute(row.text("recompute"))) {
    model.work.recompute = *recompute;
  } else {
    row.refuse("recompute", recompute.error());
  }
  model.work.framework = framework_of(row);
  model.work.parallel.tensor_overlap =
      row.flag_or("tensor_overlap", traits_of(model.work.framework).overlaps_tensor_collectives);
  model.work.action_seconds = usual_action_seconds(model.work.framework);
  model.work.gradient_bytes = row.small_or("gradient_bytes", 4);
  if (model.work.gradient_bytes != 2 && model.work.gradient_bytes != 4)
    row.expected("gradient_bytes", "2 or 4");
  if (row.has("layer_split")) {
    if (const auto split = parse_layer_split(row.text("layer_split"))) {
      model.split = *split;
    } else {
      row.refuse("layer_split", split.error());
    }
  }
  model.kernels = kernels_of(device);
  model.devices = row.count("devices");
  model.copies = model.work.parallel.data;
  return model;
}

/// The reason why a row of the CSV file cannot become a measured run.
struct RowFault {
  std::string text;
  bool leaves_out = false;  ///< true if the row is valid, but its device or model is not known
};

std::string id_of(const RowReader& row) {
  return row.has("id") ? row.text("id") : fmt::format("line {}", row.line());
}

/// Returns the reason why the schedule cannot overlap the exchanges of experts. Returns an empty text if it
/// can. The framework of a row may pair passes in a way that no schedule of Penstock supports.
std::string overlap_fault(const Scenario& scenario) {
  if (!scenario.shape.expert_overlap) return "";
  Shape shape = scenario.shape;
  shape.microbatches = static_cast<std::int32_t>(scenario.batch.microbatches.value_or(1));
  const auto taken = check_shape(scenario.schedule, shape);
  return taken ? "" : taken.error();
}

/// Builds the run of a row. If the row has a fault, or if data for it are missing, returns the first reason
/// as an error.
tl::expected<MeasuredRun, RowFault> run_of(RowReader& row, Architectures& architectures,
                                           const KernelsOf& kernels_of) {
  const auto fault = [&row] { return tl::unexpected(RowFault{.text = row.fault()}); };
  if (find_schedule(row.text("schedule")) == nullptr)
    row.expected("schedule", "a schedule's name, as `penstock schedules` lists them");
  if (!row.fault().empty()) return fault();
  const auto device = described_device(row.text("device"));
  if (!device) {
    row.expected("device",
                 fmt::format("one of {}, or one with its memory as in \"h100 96 GB\"", device_type_names()));
    return tl::unexpected(RowFault{.text = row.fault(), .leaves_out = true});
  }
  if (row.has("framework") && !enum_of_text<Framework>(row.text("framework"))) {
    row.expected("framework",
                 fmt::format("one of {}, which are priced", fmt::join(words_of<Framework>(), ", ")));
    return tl::unexpected(RowFault{.text = row.fault(), .leaves_out = true});
  }
  DeviceModel model = model_of(row, device->type, kernels_of);
  MeasuredRun run{.id = id_of(row),
                  .source = row.text("source"),
                  .model = row.text("model"),
                  .device = device->name,
                  .precision = row.text("precision")};
  if (row.has("release")) run.release = row.text("release");
  run.step_seconds = row.seconds("step_seconds");
  if (row.has("peak_gib")) run.peak_gib = row.seconds("peak_gib");
  const auto layers = row.has("layers") ? std::optional(row.count("layers")) : std::nullopt;
  Scenario& scenario = run.scenario;
  scenario.schedule = row.text("schedule");
  scenario.shape.stages = row.small("stages");
  scenario.shape.virtual_stages = row.small_or("virtual_stages", 1);
  scenario.shape.sharding = sharding_of(row);
  // In a pipeline, torchtitan holds gathered weights until the step ends (reshard_after_forward: default).
  if (model.work.framework == Framework::torchtitan && scenario.shape.stages > 1)
    scenario.shape.gather = Gather::step;
  scenario.shape.expert_overlap = model.work.parallel.expert_overlap;
  scenario.batch.micro_batch_size = row.count("micro_batch_size");
  scenario.batch.microbatches = row.count("microbatches");
  // After a fault, some values are only placeholders, so no scenario is made.
  if (!row.fault().empty()) return fault();
  if (const std::string why = overlap_fault(scenario); !why.empty()) {
    row.refuse("expert_overlap", why);
    return tl::unexpected(RowFault{.text = row.fault(), .leaves_out = true});
  }
  if (extra_stages_of(scenario.schedule) != ExtraStages::none) {
    row.refuse("schedule", "runs need a schedule whose stages all have layers, such as 1f1b");
    return tl::unexpected(RowFault{.text = row.fault(), .leaves_out = true});
  }
  const bool has_graphs = row.flag_or("cuda_graphs", true);
  if (!row.fault().empty()) return fault();
  const auto architecture = architectures.of(run.model, layers);
  if (!architecture) {
    row.refuse("model", architecture.error());
    return tl::unexpected(RowFault{.text = row.fault(), .leaves_out = true});
  }
  model.work.model = *architecture;
  // Layers of experts have many small kernels, which run faster than the host launches them. Other layers do
  // not.
  if (!has_graphs && architecture->experts) model.work.host_layer_seconds = kHostLayerSeconds;
  scenario.model = std::move(model);
  return run;
}

/// Returns the file of a row's model. `model` is a name in the folder `models` of `directory`, or a path
/// relative to `directory`.
std::filesystem::path model_file(const std::filesystem::path& directory, const std::string& model) {
  const std::filesystem::path named = directory / "models" / (model + ".json");
  std::error_code ignored;
  const bool is_name = model.find('/') == std::string::npos && std::filesystem::exists(named, ignored);
  return is_name ? named : directory / model;
}

/// Returns true if two sizes of a device differ by at most 5 %. Both then describe the same product, because
/// vendors and drivers state sizes differently.
bool is_same_size(double stated, double own) {
  constexpr double kTolerance = 0.05;
  return std::abs(stated / own - 1) <= kTolerance;
}

/// Returns the power of a device in its usual server, in watts, as its vendor states it.
double usual_watts(std::string_view device) {
  constexpr double kOfHopper = 700;
  static constexpr auto kWatts = std::to_array<std::pair<std::string_view, double>>(
      {{"a100-sxm", 400}, {"b200-sxm", 1000}, {"gb200", 1200}, {"b300", 1100}, {"gb300", 1400}});
  const auto* const found = std::ranges::find(kWatts, device, &std::pair<std::string_view, double>::first);
  return found == kWatts.end() ? kOfHopper : found->second;
}

/// Lowers the rates of a device whose power is limited to `watts`. Power rises with clock x voltage^2, and
/// the voltage rises with the clock. So at the limit, the clock falls with the cube root of the power. Only
/// matrix products and attention are at the limit, because they keep the tensor cores busy.
void limit_power(DescribedDevice& device, double watts) {
  const double usual = usual_watts(device.type.name);
  if (watts >= usual) return;
  const double slower = std::cbrt(usual / watts);
  device.type.sustained *= slower;
  device.type.sustained_fp8 *= slower;
  device.type.sustained_fp4 *= slower;
  device.type.attention_slowdown *= slower;
  device.name += fmt::format(" {:g} W", watts);
}

/// Changes the memory, the memory bandwidth or the power limit of a device. The unit of `number` decides
/// which: GB or GiB, GB/s or TB/s, or W. Returns false for an unknown unit.
bool set_figure(DescribedDevice& device, double number, std::string_view unit) {
  constexpr double kTera = 1e12;
  constexpr double kGiga = 1e9;
  DeviceType& type = device.type;
  if (unit == "W") {
    if (number <= 0) return false;
    limit_power(device, number);
    return true;
  }
  if (unit == "TB/s" || unit == "GB/s") {
    type.memory_bytes_per_second = number * (unit == "TB/s" ? kTera : kGiga);
    return true;
  }
  if (unit != "GB" && unit != "GiB") return false;
  // If a vendor states memory in GB, the unit is in fact GiB.
  const double bytes = number * kBytesPerGibibyte;
  if (is_same_size(bytes, static_cast<double>(type.memory_bytes))) return true;
  type.memory_bytes = std::llround(bytes);
  device.name += fmt::format(" {:g} GB", number);
  return true;
}

}  // namespace

std::optional<DescribedDevice> described_device(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::string word;
  words >> word;
  if (word == "NVIDIA") words >> word;
  const DeviceType* type = find_device_type(word);
  if (type == nullptr) return std::nullopt;
  DescribedDevice device{.type = *type, .name = type->name};
  while (words >> word) {
    const auto number = leading_number<double>(word);
    // Words such as "with" and "HBM3" state no figure.
    if (!number.value) continue;
    std::string unit = word.substr(number.spelling.size());
    if (unit.empty()) words >> unit;
    if (!set_figure(device, *number.value, unit)) return std::nullopt;
  }
  return device;
}

std::string model_name(const std::string& file) {
  if (is_text_of_model(file)) {
    const auto config = nlohmann::json::parse(file, nullptr, false);
    const bool is_named =
        config.is_object() && config.contains("_name_or_path") && config["_name_or_path"].is_string();
    return is_named ? config["_name_or_path"].get<std::string>() : "model";
  }
  const std::size_t begin = file.rfind('/') + 1;  // npos + 1 wraps to 0 if there is no folder
  return file.substr(begin, file.rfind('.') - begin);
}

tl::expected<MeasuredRuns, std::string> read_measured_runs(const std::string& file,
                                                           const KernelsOf& kernels_of) {
  const auto text = read_text_file(file, file);
  if (!text) return tl::unexpected(text.error());
  const std::filesystem::path directory = std::filesystem::path(file).parent_path();
  const auto text_of = [&](const std::string& model) {
    const std::filesystem::path path = model_file(directory, model);
    return is_library_config(path, model) ? read_config_text(path, model)
                                          : read_config_text(path, path.string());
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
      if (!run.error().leaves_out) return tl::unexpected(fmt::format("{}:{}", file, run.error().text));
      runs.left_out.push_back({.line = table->line(i), .id = id_of(row), .why = run.error().text});
      continue;
    }
    run->cells = table->cells(i);
    runs.runs.push_back(*std::move(run));
  }
  if (runs.runs.empty() && !runs.left_out.empty())
    return tl::unexpected(fmt::format("{}:{}", file, runs.left_out.front().why));
  if (runs.runs.empty())
    return tl::unexpected(fmt::format("{}: expected rows below the columns, got none", file));
  return runs;
}

// The measured runs of the library. Their model files are texts of the library, too.

namespace {

/// Returns the library's text with this name. The text must exist.
std::string_view text_named(std::string_view name) {
  const auto text = std::ranges::find(library_texts(), name, &LibraryText::name);
  if (text == library_texts().end()) throw std::logic_error(fmt::format("the library has no {}", name));
  return text->text;
}

MeasuredRuns runs_named(std::string_view name) {
  auto runs = parse_measured_runs(text_named(name), fmt::format("{}.csv", name),
                                  [](const std::string& model) -> tl::expected<std::string, std::string> {
                                    return std::string(text_named(model_name(model)));
                                  });
  if (!runs) throw std::logic_error(runs.error());
  return *std::move(runs);
}

}  // namespace

MeasuredRuns library_runs() { return runs_named("training_steps"); }

MeasuredRuns all_library_runs() {
  MeasuredRuns all = library_runs();
  for (const std::string_view name : {"more_training_steps", "sharded_training_steps"}) {
    MeasuredRuns more = runs_named(name);
    std::ranges::move(more.runs, std::back_inserter(all.runs));
  }
  return all;
}

}  // namespace penstock

// Reads iterations from CSV files of Penstock and vTrain. A vTrain file starts with "# GPUs, global batch,
// ..". This line contains the column names and is not a comment, because "#" means "number of". Names are
// therefore compared in lower case and without "#":
//
//     # vTrain (..): iterations of GPTs           a comment, because no row of numbers follows directly
//     # GPUs,global batch,micro batch,..          the names: devices, global_batch_size, micro_batch_size, ..
//     2,16,8,..
//
// measured_runs.cpp reads the other format, in which each row names the file of its model. Tests:
// tests/sim/measured_runs_test.cpp.

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/pricing/iteration_costs.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/hold/fit_iterations.hpp"
#include "sim/hold/measured_runs.hpp"
#include "text/csv_table.hpp"
#include "text/numbers.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

struct ColumnName {
  std::string_view name;
  std::string_view of_vtrain;
};
constexpr auto kIterationColumns = std::to_array<ColumnName>({{"global_batch_size", "global batch"},
                                                              {"micro_batch_size", "micro batch"},
                                                              {"hidden", "hidden size"},
                                                              {"heads", "attention heads"},
                                                              {"layers", "layers"},
                                                              {"sequence", "sequence length"},
                                                              {"tensor", "tensor parallelism"},
                                                              {"data", "data parallelism"},
                                                              {"stages", "pipeline parallelism"}});
constexpr std::string_view kDevices = "devices";
constexpr std::string_view kSeconds = "step_seconds";
constexpr std::string_view kMilliseconds = "iteration time (ms)";

/// Returns Penstock's name for a column. The name in the file is converted to lower case and loses "#" and
/// the spaces at its ends. Then vTrain's name is replaced: "layers" for " # Layers", "devices" for "GPUs".
std::string plain_name(std::string_view cell) {
  while (!cell.empty() && (cell.front() == '#' || cell.front() == ' ')) cell.remove_prefix(1);
  while (!cell.empty() && cell.back() == ' ') cell.remove_suffix(1);
  std::string name(cell);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  for (const ColumnName& column : kIterationColumns) {
    if (name == column.of_vtrain) return std::string(column.name);
  }
  return name == "gpus" ? std::string(kDevices) : name;
}

/// The index of each column in the file. The keys are Penstock's names of the columns.
using Places = std::map<std::string, std::size_t, std::less<>>;

/// Returns a message about the first missing column, or nothing. The column of devices is optional.
std::optional<std::string> missing_column(const Places& places) {
  for (const ColumnName& column : kIterationColumns) {
    if (!places.contains(column.name))
      return fmt::format("expected a column \"{}\" (or \"{}\")", column.name, column.of_vtrain);
  }
  if (places.contains(kSeconds) || places.contains(kMilliseconds)) return std::nullopt;
  return fmt::format("expected a column \"{}\" or \"{}\"", kSeconds, kMilliseconds);
}

/// A reader of the cells in one row. It stores a message about the first fault.
class IterationReader {
 public:
  IterationReader(const Places& places, const std::vector<std::string>& cells)
      : places_(places), cells_(cells) {}

  /// Reads a whole number from 1 to `most`. If the cell has no such number, records a fault and returns 1.
  std::int64_t count(std::string_view column, std::int64_t most) {
    const std::string& cell = text(column);
    const auto value = number_of_text<std::int64_t>(cell);
    if (value && *value >= 1 && *value <= most) return *value;
    expected(column, fmt::format("a whole number from 1 to {}, got \"{}\"", most, cell));
    return 1;
  }
  std::int32_t degree(std::string_view column) {
    constexpr std::int64_t kMost = 1 << 20;
    return static_cast<std::int32_t>(count(column, kMost));
  }
  bool has(std::string_view column) const { return places_.contains(column); }

  double seconds() {
    constexpr double kMillisecond = 1e-3;
    // The limit is about eleven days. Predictions of other rows may be many times as long and still fit into
    // 64 bits of nanoseconds.
    constexpr double kMostSeconds = 1e6;
    const std::string_view column = has(kSeconds) ? kSeconds : kMilliseconds;
    const double unit = column == kSeconds ? 1 : kMillisecond;
    const auto value = finite_number(text(column));
    if (value && *value > 0 && *value * unit <= kMostSeconds) return *value * unit;
    expected(column,
             fmt::format("a number above 0 and up to {}, got \"{}\"", kMostSeconds / unit, text(column)));
    return 1;
  }

  void expected(std::string_view column, std::string_view what) {
    if (fault_.empty()) fault_ = fmt::format("{}: expected {}", column, what);
  }
  const std::string& fault() const { return fault_; }

 private:
  const std::string& text(std::string_view column) const { return cells_[places_.find(column)->second]; }

  const Places& places_;
  const std::vector<std::string>& cells_;
  std::string fault_;
};

/// Records a fault if the sizes in the row do not divide each other as required. Also records a fault if
/// the degrees of parallelism do not match the number of devices.
void check_sizes(IterationReader& row, const Iteration& of, std::int64_t global) {
  const std::int64_t part = of.kind.micro_batch_size * of.data;
  if (global % part != 0) {
    row.expected("global_batch_size",
                 fmt::format("a multiple of micro_batch_size x data = {}, got {}", part, global));
  }
  if (of.layers % of.stages != 0)
    row.expected("layers", fmt::format("a multiple of stages = {}, got {}", of.stages, of.layers));
  // Each degree is at most 2^20, so the product of three fits into 64 bits.
  const std::int64_t devices = std::int64_t{of.kind.tensor} * of.data * of.stages;
  constexpr std::int64_t kMostDevices = std::int64_t{1} << 31;
  if (!row.has(kDevices)) return;
  const std::int64_t stated = row.count(kDevices, kMostDevices);
  if (stated != devices)
    row.expected(kDevices, fmt::format("tensor x data x stages = {}, got {}", devices, stated));
}

/// Reads one row. An error has the form "LINE: COLUMN: expected .., got ..".
tl::expected<Iteration, std::string> iteration_of(const Places& places, const CsvRow& cells) {
  constexpr std::int64_t kMostSize = 1 << 20;
  constexpr std::int64_t kMostLayers = 10'000;
  constexpr std::int64_t kMostSamples = 1 << 28;
  IterationReader row(places, cells.cells);
  Iteration of{.kind = {.hidden = row.count("hidden", kMostSize),
                        .heads = row.count("heads", kMostSize),
                        .sequence = row.count("sequence", kMostSamples),
                        .tensor = row.degree("tensor"),
                        .micro_batch_size = row.count("micro_batch_size", kMostSamples)},
               .layers = row.count("layers", kMostLayers),
               .data = row.degree("data"),
               .stages = row.degree("stages"),
               .seconds = row.seconds(),
               .line = cells.line,
               .cells = cells.cells};
  const std::int64_t global = row.count("global_batch_size", kMostSamples);
  if (row.fault().empty()) check_sizes(row, of, global);
  if (!row.fault().empty()) return tl::unexpected(fmt::format("{}: {}", cells.line, row.fault()));
  // check_sizes() has verified that the division has no remainder.
  of.microbatches = global / (of.kind.micro_batch_size * of.data);
  return of;
}

/// Returns the index of each column. If several columns share a name, the first one is used.
Places places_of(const std::vector<std::string>& header) {
  Places places;
  for (std::size_t i = 0; i < header.size(); ++i) places.emplace(plain_name(header[i]), i);
  return places;
}

/// Returns true if the line is blank. The CSV reader returns a blank line as a row without cells or with one
/// empty cell.
bool is_empty(const CsvRow& row) {
  return row.cells.empty() || (row.cells.size() == 1 && row.cells.front().empty());
}

/// Removes the comment lines above the column names. The line of the names may also start with '#'. It
/// differs from a comment, because the line after it starts with a number.
void drop_comments_above_names(std::vector<CsvRow>& rows) {
  std::size_t first = 0;
  while (first + 1 < rows.size() && rows[first].cells.front().starts_with('#') &&
         !finite_number(rows[first + 1].cells.front()))
    ++first;
  rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(first));
}

}  // namespace

tl::expected<Iterations, std::string> read_iterations(const std::string& file) {
  const auto text = read_text_file(file, file);
  if (!text) return tl::unexpected(text.error());
  auto rows = csv_rows(*text);
  if (!rows) return tl::unexpected(fmt::format("{}:{}: {}", file, rows.error().line, rows.error().message));
  std::erase_if(*rows, is_empty);
  drop_comments_above_names(*rows);
  if (rows->size() < 2) {
    return tl::unexpected(
        fmt::format("{}: expected names of columns and rows below them, got {} rows", file, rows->size()));
  }
  Iterations iterations{.file = file, .header = rows->front().cells, .rows = {}};
  const Places places = places_of(iterations.header);
  if (const auto missing = missing_column(places)) {
    return tl::unexpected(fmt::format("{}:{}: {}, got {}", file, rows->front().line, *missing,
                                      fmt::join(iterations.header, ", ")));
  }
  for (std::size_t i = 1; i < rows->size(); ++i) {
    const CsvRow& cells = (*rows)[i];
    if (cells.cells.front().starts_with('#')) continue;
    if (cells.cells.size() != iterations.header.size()) {
      return tl::unexpected(fmt::format("{}:{}: expected {} cells as in the first row, got {}", file,
                                        cells.line, iterations.header.size(), cells.cells.size()));
    }
    auto iteration = iteration_of(places, cells);
    if (!iteration) return tl::unexpected(fmt::format("{}:{}", file, iteration.error()));
    iterations.rows.push_back(*std::move(iteration));
  }
  return iterations;
}

MeasuredRuns runs_with(const Iterations& iterations, const std::shared_ptr<const IterationCosts>& costs) {
  MeasuredRuns runs{.header = iterations.header, .runs = {}};
  for (const Iteration& row : iterations.rows) {
    Scenario scenario;
    scenario.schedule = "1f1b";
    // If the costs state no bandwidth, the scenario has no cluster, and its messages take no time.
    if (costs->link_bytes_per_second > 0) {
      UniformCluster links;
      links.devices = row.stages;
      links.bytes_per_second = costs->link_bytes_per_second;
      scenario.cluster.shape = links;
    }
    scenario.shape.stages = row.stages;
    scenario.batch.micro_batch_size = row.kind.micro_batch_size;
    scenario.batch.microbatches = row.microbatches;
    scenario.model = FittedModel{.costs = costs, .kind = row.kind, .layers = row.layers, .copies = row.data};
    runs.runs.push_back({.id = fmt::format("line {}", row.line),
                         .source = fmt::format("{} {}", row.stages, row.stages == 1 ? "stage" : "stages"),
                         .model = {},
                         .device = {},
                         .precision = {},
                         .scenario = std::move(scenario),
                         .step_seconds = row.seconds,
                         .cells = row.cells});
  }
  return runs;
}

}  // namespace penstock

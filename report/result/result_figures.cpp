// Chooses the figures and words that describe a Result, as headlines and table cells (table.hpp). Terminal
// text and pages use them, so both show the same figures and names. Tested by figures_test.cpp.

#include "report/result/result_figures.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/print/memory_category.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "text/escaping.hpp"

namespace penstock {

namespace {

Cell memory_cell(Bytes amount, MemoryUnit unit) {
  return {format_memory(amount, unit), shown_amount(amount, unit)};
}

/// Returns a text on the stages and ranks of a program: "K = 4 (8 stages)" for two stages on each rank.
/// With replicas it is "K = 2 stages on 3 ranks", and with both "K = 4 (8 stages) on 16 ranks".
std::string stages_text(const ProgramReport& program) {
  const std::int32_t size = pipeline_size(program);
  const std::string stages = format_count(program.stages, "stage");
  if (program.ranks <= size) return fmt::format("K = {} ({})", size, stages);
  return fmt::format("K = {} on {}", program.stages == size ? stages : fmt::format("{} ({})", size, stages),
                     format_count(program.ranks, "rank"));
}

std::string shape_text(const ProgramReport& program) {
  return fmt::format("{}, M = {}, {}", stages_text(program), program.microbatches,
                     format_count(program.iterations, "iteration"));
}

/// Returns the text of a headline from figures of the run, such as "33.33 % of the total, 50.00 % of the
/// ideal". The text is empty if the run has none of the figures.
std::string figures_text(const RunFigures& run, std::string_view headline) {
  std::string line;
  for (const RunFigure& figure : figures_of_runs()) {
    const std::optional<double> value = figure.get(run);
    if (figure.headline != headline || !value) continue;
    if (!line.empty()) line += ", ";
    line += fmt::format(fmt::runtime(figure.text), run_cell(figure, *value).text);
  }
  return line;
}

/// Returns a text with the bytes that all ranks send together, and the bytes for each sample.
std::string traffic_text(const Result& result) {
  Bytes sent = 0;
  for (const RankReport& rank : result.ranks) sent += rank.sent_bytes;
  std::string text = format_bytes(sent);
  if (result.throughput.samples > 0) {
    const double per_sample = static_cast<double>(sent) / samples_of_copy(result);
    text += fmt::format(", {} per sample", format_bytes(static_cast<Bytes>(per_sample)));
  }
  return text;
}

/// Returns a table cell with a rank's peak memory: "7.10 GiB", or "17.23 GiB > 16.00 GiB" if the device has
/// less.
Cell peak_cell(const RankMemory& memory) {
  Cell cell = memory_cell(memory.peak_bytes, memory.unit);
  if (memory.out_of_memory())
    cell.text += fmt::format(" > {}", format_memory(memory.usable().value_or(0), memory.unit));
  return cell;
}

Cell rank_cell(const RankFigure& figure, const RankReport& rank) {
  const std::int64_t value = figure.get(rank);
  switch (figure.unit) {
    case FigureUnit::nanoseconds:
      return duration_cell(value);
    case FigureUnit::bytes:
      return bytes_cell(value);
    case FigureUnit::memory:
      return figure.key == "peak_bytes" ? peak_cell(rank.memory) : memory_cell(value, rank.memory.unit);
    case FigureUnit::count:
    case FigureUnit::part:
    case FigureUnit::per_second:
    case FigureUnit::flops:
    case FigureUnit::money:
      return count_cell(value);
  }
  return {};
}

/// Returns a text that says how the result was made, such as "predicted by event, channel model directed,
/// blocking transfers". It names only transfer rules that differ from the defaults.
std::string origin_text(const Result& result) {
  std::string text(to_text(result.kind));
  if (!result.engine.empty()) text += fmt::format(" by {}", result.engine);
  if (!result.channel.empty()) text += fmt::format(", channel model {}", result.channel);
  const TransferReport& transfers = result.transfers;
  if (transfers.blocking == Blocking::each) text += ", blocking transfers";
  if (transfers.blocking == Blocking::batched) text += ", batched transfers";
  if (transfers.launch_order) text += ", launch order";
  if (transfers.capacity > 0) text += fmt::format(", capacity {}", transfers.capacity);
  if (transfers.eager_bytes > 0) text += fmt::format(", eager below {}", format_bytes(transfers.eager_bytes));
  return text;
}

/// Returns a text about the rank with the least free memory, such as "74.3 of 76.6 GiB usable on rank 0".
/// The text is empty if no memory is reserved.
std::string memory_text(const Result& result) {
  const auto left = [](const RankReport& rank) {
    return rank.memory.usable().value_or(std::numeric_limits<Bytes>::max()) - rank.memory.peak_bytes;
  };
  const auto fullest = std::ranges::min_element(result.ranks, {}, left);
  if (fullest == result.ranks.end() || fullest->memory.reserved == 0) return "";
  const auto usable = fullest->memory.usable();
  if (!usable) return "";
  const auto gibibytes = [](Bytes bytes) { return static_cast<double>(bytes) / (1 << 30); };
  return fmt::format("{:.1f} of {:.1f} GiB usable on rank {}", gibibytes(fullest->memory.peak_bytes),
                     gibibytes(*usable), fullest->rank);
}

std::string model_text(const ModelReport& model) {
  std::string text = fmt::format("{:.4g} billion parameters", static_cast<double>(model.parameters) / 1e9);
  if (model.active_parameters != model.parameters)
    text += fmt::format(", {:.4g} billion active", static_cast<double>(model.active_parameters) / 1e9);
  return text + fmt::format(", on {}", format_count(model.devices, "device"));
}

}  // namespace

Cell run_cell(const RunFigure& figure, double value) {
  switch (figure.unit) {
    case FigureUnit::part:
      return percent_cell(value);
    case FigureUnit::per_second:
    case FigureUnit::money:
      return rate_cell(value);
    case FigureUnit::flops:
      return {fmt::format("{:.1f} TFLOP/s", value / 1e12), value};
    case FigureUnit::nanoseconds:
      return period_cell(value);
    case FigureUnit::bytes:
    case FigureUnit::memory:
    case FigureUnit::count:
      return quantity_cell(value);
  }
  return {};
}

std::string available_text(const RankMemory& memory) {
  std::string capacity = format_memory(memory.capacity.value_or(0), memory.unit);
  if (memory.reserved == 0) return capacity;
  return fmt::format("{} usable of {}", format_memory(memory.usable().value_or(0), memory.unit), capacity);
}

std::int32_t pipeline_size(const ProgramReport& program) {
  return program.pipeline_size > 0 ? program.pipeline_size : std::min(program.ranks, program.stages);
}

std::vector<Headline> headlines(const Result& result) {
  std::vector<Headline> lines;
  if (!result.scenario.empty()) lines.push_back({"scenario", result.scenario});
  lines.push_back({"schedule", result.program.schedule + ", " + shape_text(result.program)});
  lines.push_back({"result", origin_text(result)});
  lines.push_back({"makespan", format_duration(result.makespan_ns)});
  lines.push_back({"bubble", figures_text(result, "bubble")});
  lines.push_back({"throughput", figures_text(result, "throughput")});
  if (result.model) lines.push_back({"model", model_text(*result.model)});
  if (result.throughput.model) lines.push_back({"training", figures_text(result, "training")});
  if (result.throughput.prefill) lines.push_back({"prefill", figures_text(result, "prefill")});
  lines.push_back({"samples", figures_text(result, "samples")});
  if (const std::string memory = memory_text(result); !memory.empty()) lines.push_back({"memory", memory});
  lines.push_back({"sent", traffic_text(result)});
  if (!result.program.digest.empty()) lines.push_back({"digest", result.program.digest});
  return lines;
}

Table rank_figures(const Result& result) {
  Table table;
  const bool devices =
      std::ranges::any_of(result.ranks, [](const RankReport& r) { return !r.device.empty(); });
  table.columns = {"rank"};
  if (devices) table.columns.emplace_back("device");
  for (const RankFigure& figure : figures_of_ranks()) table.columns.emplace_back(figure.title);
  for (const RankReport& rank : result.ranks) {
    std::vector<Cell> row = {count_cell(rank.rank)};
    if (devices) row.push_back({rank.device, std::nullopt});
    for (const RankFigure& figure : figures_of_ranks()) row.push_back(rank_cell(figure, rank));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<MemoryCategory> used_categories(const Result& result) {
  std::vector<MemoryCategory> used;
  for (std::size_t i = 0; i < kMemoryCategoryCount; ++i) {
    const bool in_use =
        std::ranges::any_of(result.ranks, [&](const RankReport& rank) { return rank.memory.peaks[i] > 0; });
    if (in_use) used.push_back(static_cast<MemoryCategory>(i));
  }
  return used;
}

Table peak_figures(const Result& result) {
  Table table;
  table.columns = {"rank"};
  const std::vector<MemoryCategory> used = used_categories(result);
  for (const MemoryCategory category : used) {
    std::string name(to_text(category));
    std::ranges::replace(name, '_', ' ');
    table.columns.push_back(std::move(name));
  }
  for (const RankReport& rank : result.ranks) {
    std::vector<Cell> row = {count_cell(rank.rank)};
    for (const MemoryCategory category : used) {
      row.push_back(memory_cell(rank.memory.peaks[static_cast<std::size_t>(category)], rank.memory.unit));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table link_figures(const Result& result) {
  Table table;
  table.columns = {"link", "bytes"};
  if (result.throughput.samples > 0) table.columns.emplace_back("per sample");
  for (const LinkTraffic& link : result.links) {
    table.rows.push_back({Cell{link.link, std::nullopt}, bytes_cell(link.bytes)});
    if (result.throughput.samples > 0) {
      const double per_sample = static_cast<double>(link.bytes) / samples_of_copy(result);
      table.rows.back().push_back({format_bytes(static_cast<Bytes>(per_sample)), per_sample});
    }
  }
  return table;
}

std::vector<std::string> out_of_memory_lines(const Result& result) {
  std::vector<std::string> lines;
  for (const RankReport& rank : result.ranks) {
    const RankMemory& memory = rank.memory;
    if (!memory.capacity || !memory.out_of_memory()) continue;
    const std::string device = rank.device.empty() ? "" : fmt::format(" ({})", rank.device);
    const std::string cause =
        memory.peak_action.empty()
            ? "from the start"
            : fmt::format("at {} in {}", format_duration(memory.peak_time_ns), memory.peak_action);
    lines.push_back(fmt::format("rank {}{} needs {} and has {}; the peak is reached {}", rank.rank, device,
                                format_memory(memory.peak_bytes, memory.unit), available_text(memory),
                                cause));
  }
  return lines;
}

namespace {

std::string out_of_memory_text(const Result& result) {
  std::string text;
  for (const std::string& line : out_of_memory_lines(result))
    text += fmt::format("out of memory: {}\n", shown_name(line));
  return text.empty() ? text : '\n' + text;
}

}  // namespace

std::string result_to_table(const Result& result, const ResultTableOptions& options) {
  std::string text;
  for (const Headline& line : headlines(result))
    text += fmt::format("{:<11} {}\n", line.name, shown_name(line.figure));
  if (!result.ranks.empty()) text += '\n' + table_to_text(rank_figures(result), options.width);
  if (!used_categories(result).empty()) {
    text += "\npeak of each kind of memory\n" + table_to_text(peak_figures(result), options.width);
  }
  if (!result.links.empty()) text += '\n' + table_to_text(link_figures(result), options.width);
  if (options.out_of_memory == OutOfMemoryLines::shown) text += out_of_memory_text(result);
  if (!result.notes.empty()) text += '\n';
  for (const std::string& note : result.notes) text += fmt::format("note: {}\n", shown_name(note));
  return text;
}

}  // namespace penstock

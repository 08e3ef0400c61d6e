// Writes a sweep as text, CSV and JSON. CSV and JSON use the same columns, fields_of(). The best point of a
// schedule is the one with the highest steady rate. A point without a steady rate comes after all points with
// one, because the rate of a short run includes filling and draining. Points that were skipped or do not fit
// are listed with their reason and are never the best. Tested by sweep_test.cpp.

#include "report/result/sweep_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "report/result/result_json.hpp"
#include "schedules/ir/action.hpp"
#include "text/escaping.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;
using Field = std::pair<std::string_view, Json>;

Json finite_or_null(std::optional<double> value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

/// The groups in which a sweep shows the figures of a run. First come bubbles, then rates, and then figures
/// that only some scenarios have.
enum class FigureGroup : std::uint8_t { bubble, rate, sometimes };
FigureGroup group_of(const RunFigure& figure) {
  if (figure.absent == AbsentFigure::left_out) return FigureGroup::sometimes;
  return figure.section == "bubble" ? FigureGroup::bubble : FigureGroup::rate;
}

/// Returns the figures of one group that a sweep shows, in the order of figures_of_runs().
std::vector<RunFigure> figures_of_group(FigureGroup group) {
  std::vector<RunFigure> figures;
  std::ranges::copy_if(figures_of_runs(), std::back_inserter(figures),
                       [&](const RunFigure& figure) { return figure.in_sweep && group_of(figure) == group; });
  return figures;
}

/// Returns the keys of the figures that occur only together, such as rates of a model, and that at least one
/// of the points has.
std::set<std::string_view> joint_figures(std::span<const SweepRow> rows) {
  std::set<std::string_view> keys;
  for (const RunFigure& figure : figures_of_runs()) {
    const auto has = [&](const SweepRow& row) { return figure.get(row).has_value(); };
    if (!figure.comes_with.empty() && std::ranges::any_of(rows, has)) keys.insert(figure.key);
  }
  return keys;
}

/// Returns the fields of a point. A figure that occurs only together with others is a field only if `joint`
/// has its key.
std::vector<Field> fields_of(const SweepRow& row, const std::set<std::string_view>& joint) {
  const bool simulated = was_simulated(row);
  // A point that was not simulated contains zeros, which must not be printed as figures.
  const auto figure = [&](const Json& value) { return simulated ? value : Json(nullptr); };
  std::vector<Field> fields;
  for (const auto& [key, value] : row.varied) fields.emplace_back(key, value);
  const std::initializer_list<Field> own = {{"schedule", row.schedule},
                                            {"stages", row.stages},
                                            {"virtual_stages", row.virtual_stages},
                                            {"microbatches", row.microbatches},
                                            {"micro_batch_size", finite_or_null(row.micro_batch_size)},
                                            {"global_batch_size", finite_or_null(row.global_batch_size)},
                                            {"status", to_text(row.status)},
                                            {"reason", row.reason},
                                            {"makespan_ns", figure(row.makespan_ns)}};
  std::ranges::copy(own, std::back_inserter(fields));
  const auto add_group = [&](FigureGroup group) {
    for (const RunFigure& each : figures_of_group(group)) {
      if (each.comes_with.empty() || joint.contains(each.key))
        fields.emplace_back(each.key, figure(finite_or_null(each.get(row))));
    }
  };
  add_group(FigureGroup::bubble);
  fields.emplace_back("closed_form_bubble", figure(finite_or_null(row.closed_form_bubble)));
  add_group(FigureGroup::rate);
  fields.emplace_back("peak_bytes", figure(amount_json<Json>(row.peak_bytes, row.memory_unit)));
  fields.emplace_back("peak_rank", figure(row.peak_rank));
  add_group(FigureGroup::sometimes);
  return fields;
}

/// Returns a value as a CSV field. Null becomes an empty field, and csv_field() quotes strings.
std::string csv_value(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return csv_field(value.get<std::string>());
  if (value.is_number_float()) return shortest_number(value.get<double>());
  return value.dump();
}

/// Returns one line of CSV. For each field, `text` returns what the line contains: the field's value or its
/// name.
template <typename Text>
std::string csv_line(const std::vector<Field>& fields, Text text) {
  std::string line;
  for (const Field& field : fields) {
    if (!line.empty()) line += ',';
    line += text(field);
  }
  return line + '\n';
}

/// Returns a point as JSON. Some figures occur only together; the object has them only if the point has them.
Json row_json(const SweepRow& row) {
  Json object = Json::object();
  for (const auto& [key, value] : fields_of(row, joint_figures({&row, 1}))) object[std::string(key)] = value;
  return object;
}

/// Returns the integer at a key, which must be at least `least`. A plain get() would drop fractions and
/// would change numbers that are too large.
template <std::integral Integer>
Integer count_at(const Json& object, const char* key, Integer least = 0) {
  const Json& value = object.at(key);
  // The library stores a number without a minus sign as unsigned.
  if (value.is_number_unsigned() && std::in_range<Integer>(value.get<std::uint64_t>()) &&
      value.get<Integer>() >= least)
    return value.get<Integer>();
  throw std::invalid_argument(fmt::format("{}: expected an integer from {} to {}, got {}", key, least,
                                          std::numeric_limits<Integer>::max(), shown_json(value)));
}

/// The smallest and the largest value that a reader accepts for a figure.
struct FigureRange {
  double least = 0;
  double most = std::numeric_limits<double>::max();
  std::string_view text;
};
constexpr FigureRange kSamples{.least = std::numeric_limits<double>::denorm_min(),
                               .text = "a number above 0"};
// The range of fractions allows for rounding, as in result.cpp.
constexpr double kRounding = 1e-9;
constexpr FigureRange kPart{.least = -kRounding, .most = 1 + kRounding, .text = "a part in [0, 1]"};

/// Returns the smallest and the largest value that a reader accepts for a figure of a run.
FigureRange range_of(const RunFigure& figure) {
  if (figure.bound == FigureBound::part) return kPart;
  if (figure.unit == FigureUnit::count) return kSamples;
  return {.least = figure.unit == FigureUnit::part ? -kRounding : 0, .text = "a number of at least 0"};
}

/// The accepted range of a number of activations. Activations are stored in parts, and the number of parts
/// must fit into 64 bits.
constexpr FigureRange kActivations{.least = 0, .most = 1e12, .text = "a number of activations"};

double figure_at(const Json& object, const char* key, const FigureRange& range) {
  const Json& value = object.at(key);
  if (value.is_number()) {
    const auto figure = value.get<double>();
    if (figure >= range.least && figure <= range.most) return figure;
  }
  throw std::invalid_argument(fmt::format("{}: expected {}, got {}", key, range.text, shown_json(value)));
}

/// Returns the figure at a key, or nothing if its value is null. The value must be within `range`.
std::optional<double> figure_if_any(const Json& object, const char* key, const FigureRange& range) {
  return object.at(key).is_null() ? std::nullopt : std::optional(figure_at(object, key, range));
}

SweepStatus status_of(const std::string& text) {
  if (const auto status = enum_of_text<SweepStatus>(text)) return *status;
  throw std::invalid_argument(fmt::format("unknown status \"{}\"", text));
}

/// Reads the figures of a simulated point. `peak_rank` has no upper limit, because the JSON of a point does
/// not contain the number of ranks.
void read_figures(SweepRow& row, const Json& object) {
  row.micro_batch_size = figure_at(object, "micro_batch_size", kSamples);
  row.global_batch_size = figure_at(object, "global_batch_size", kSamples);
  // If no action takes time, the makespan is 0, and so are the rates.
  row.makespan_ns = count_at<Ns>(object, "makespan_ns");
  row.closed_form_bubble = figure_if_any(object, "closed_form_bubble", kPart);
  row.peak_bytes = row.memory_unit == MemoryUnit::bytes
                       ? count_at<Bytes>(object, "peak_bytes")
                       : amount_of_shown(figure_at(object, "peak_bytes", kActivations), row.memory_unit);
  row.peak_rank = count_at<std::int32_t>(object, "peak_rank");
  for (const RunFigure& figure : figures_of_runs()) {
    const std::string key(figure.key);
    // Some figures occur only together: a point has all of them or none of them.
    const bool is_alone = figure.comes_with.empty();
    if (!figure.in_sweep || (!is_alone && !object.contains(figure.comes_with))) continue;
    const bool may_be_null = is_alone && figure.absent != AbsentFigure::never;
    if (may_be_null && object.at(key).is_null()) continue;
    figure.set(row, figure_at(object, key.c_str(), range_of(figure)));
  }
}

/// Returns the point that row_json() wrote as this object. Throws if a key is missing, or if a type or
/// figure is wrong.
SweepRow row_of(const Json& object, MemoryUnit unit) {
  SweepRow row;
  row.memory_unit = unit;
  row.schedule = object.at("schedule").get<std::string>();
  row.status = status_of(object.at("status").get<std::string>());
  row.reason = object.at("reason").get<std::string>();
  // The sizes of a point that was not simulated may be invalid, and this may be the reason why it was not
  // simulated.
  const std::int32_t least = was_simulated(row) ? 1 : 0;
  row.stages = count_at(object, "stages", least);
  row.virtual_stages = count_at(object, "virtual_stages", least);
  row.microbatches = count_at(object, "microbatches", least);
  if (was_simulated(row)) {
    read_figures(row, object);
  } else {
    row.micro_batch_size = figure_if_any(object, "micro_batch_size", kSamples);
    row.global_batch_size = figure_if_any(object, "global_batch_size", kSamples);
  }
  return row;
}

/// Returns the points as a JSON list, in the order of the sweep.
Json rows_json(const std::vector<SweepRow>& rows) {
  Json list = Json::array();
  for (const SweepRow& row : rows) list.push_back(row_json(row));
  return list;
}

Cell optional_cell(std::optional<double> quantity) { return quantity ? quantity_cell(*quantity) : Cell{}; }
Cell samples_per_update_cell(const SweepRow& row) {
  return optional_cell(was_simulated(row) ? row.throughput.samples_per_update : row.global_batch_size);
}

/// A builder of the columns of a sweep's table that lie between the keys and the status.
class FigureColumns {
 public:
  explicit FigureColumns(const std::vector<SweepRow>& rows) : rows_(rows), cells_(rows.size()) {
    add("makespan", [](const SweepRow& row) {
      return Cell{format_duration(row.makespan_ns), static_cast<double>(row.makespan_ns)};
    });
    add_group(FigureGroup::bubble);
    add("closed form", [](const SweepRow& row) {
      return row.closed_form_bubble ? percent_cell(*row.closed_form_bubble) : Cell{};
    });
    add_group(FigureGroup::rate);
    add("peak memory", [](const SweepRow& row) {
      return Cell{format_memory(row.peak_bytes, row.memory_unit),
                  shown_amount(row.peak_bytes, row.memory_unit)};
    });
    add_group(FigureGroup::sometimes);
  }

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<Cell>& cells(std::size_t row) const { return cells_[row]; }

 private:
  /// Adds a column to the table. `cell_of` returns the cell of a point. The cells are empty for points that
  /// were not simulated.
  template <typename CellOf>
  void add(std::string_view name, const CellOf& cell_of) {
    names_.emplace_back(name);
    for (std::size_t i = 0; i < rows_.size(); ++i)
      cells_[i].push_back(was_simulated(rows_[i]) ? cell_of(rows_[i]) : Cell{});
  }
  void add_group(FigureGroup group) {
    for (const RunFigure& figure : figures_of_group(group)) {
      const auto has = [&](const SweepRow& row) { return figure.get(row).has_value(); };
      const bool is_shown = group != FigureGroup::sometimes || std::ranges::any_of(rows_, has);
      if (figure.column.empty() || !is_shown) continue;
      add(figure.column, [&](const SweepRow& row) {
        const std::optional<double> value = figure.get(row);
        return value ? run_cell(figure, *value) : Cell{};
      });
    }
  }

  const std::vector<SweepRow>& rows_;
  std::vector<std::string> names_;
  std::vector<std::vector<Cell>> cells_;  // The cells, by row and column.
};

std::string status_text(const SweepRow& row) {
  std::string text(to_text(row.status));
  std::ranges::replace(text, '_', ' ');
  if (row.status == SweepStatus::out_of_memory && row.reason.empty())
    text += fmt::format(": rank {}", row.peak_rank);
  return row.reason.empty() ? text : text + ": " + row.reason;
}

}  // namespace

std::string varied_text(const VariedValues& varied) {
  std::string text;
  for (const auto& [key, value] : varied)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", key, value);
  return text;
}

bool was_simulated(const SweepRow& row) {
  return row.status == SweepStatus::ok || row.status == SweepStatus::out_of_memory;
}

double ranking_rate(const SweepRow& row) {
  return row.throughput.steady_samples_per_second.value_or(row.throughput.samples_per_second);
}

std::vector<std::string> schedules_of(const Sweep& sweep) {
  std::vector<std::string> schedules;
  for (const SweepRow& row : sweep.rows) {
    if (std::ranges::find(schedules, row.schedule) == schedules.end()) schedules.push_back(row.schedule);
  }
  return schedules;
}

bool ranks_above(const SweepRow& row, const SweepRow& other) {
  const bool is_steady = row.throughput.steady_samples_per_second.has_value();
  if (is_steady != other.throughput.steady_samples_per_second.has_value()) return is_steady;
  return ranking_rate(row) > ranking_rate(other);
}

std::string point_text(const SweepRow& row) {
  std::string text = fmt::format("{} with K = {}", row.schedule, row.stages);
  if (row.virtual_stages > 1) text += fmt::format(", v = {}", row.virtual_stages);
  if (row.micro_batch_size.value_or(0) > 0)
    text += fmt::format(", b = {}", format_quantity(*row.micro_batch_size));
  if (!row.varied.empty()) text += ", " + varied_text(row.varied);
  return fmt::format("{} and M = {}", text, row.microbatches);
}

std::vector<std::size_t> best_two(const Sweep& sweep) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < sweep.rows.size(); ++i) {
    if (sweep.rows[i].status == SweepStatus::ok) order.push_back(i);
  }
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return ranks_above(sweep.rows[a], sweep.rows[b]); });
  if (order.size() < 3) return order;
  const auto other = std::ranges::find_if(
      order, [&](std::size_t i) { return sweep.rows[i].schedule != sweep.rows[order.front()].schedule; });
  return {order[0], other == order.end() ? order[1] : *other};
}

std::vector<SweepRow> best_per_schedule(const Sweep& sweep) {
  std::vector<SweepRow> best;
  for (const std::string& schedule : schedules_of(sweep)) {
    const SweepRow* winner = nullptr;
    for (const SweepRow& row : sweep.rows) {
      if (row.schedule != schedule || row.status != SweepStatus::ok) continue;
      if (winner == nullptr || ranks_above(row, *winner)) winner = &row;
    }
    if (winner != nullptr) best.push_back(*winner);
  }
  return best;
}

Table sweep_rows(const std::vector<SweepRow>& rows) {
  Table table;
  const VariedValues varied = rows.empty() ? VariedValues{} : rows.front().varied;
  table.keys = 4 + varied.size();
  for (const auto& [key, value] : varied) table.columns.push_back(key);
  std::ranges::copy(std::array{"schedule", "K", "v", "M", "micro batch", "samples/update"},
                    std::back_inserter(table.columns));
  const FigureColumns figures(rows);
  std::ranges::copy(figures.names(), std::back_inserter(table.columns));
  table.columns.emplace_back("status");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SweepRow& row = rows[i];
    std::vector<Cell> cells;
    for (const auto& [key, value] : row.varied) cells.push_back({value, finite_number(value)});
    std::ranges::copy(std::initializer_list<Cell>{{row.schedule, std::nullopt},
                                                  count_cell(row.stages),
                                                  count_cell(row.virtual_stages),
                                                  count_cell(row.microbatches),
                                                  optional_cell(row.micro_batch_size),
                                                  samples_per_update_cell(row)},
                      std::back_inserter(cells));
    std::ranges::copy(figures.cells(i), std::back_inserter(cells));
    cells.push_back({status_text(row), std::nullopt});
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::string sweep_table(const Sweep& sweep, std::size_t width) {
  std::string text = sweep.title.empty() ? "" : shown_name(sweep.title) + "\n\n";
  text += table_to_text(sweep_rows(sweep.rows), width);
  const std::vector<SweepRow> best = best_per_schedule(sweep);
  if (best.empty()) {
    text += "\nno configuration ran and fits into memory\n";
  } else {
    text +=
        "\nbest of each schedule by steady samples/s (by those of the run where there is no steady "
        "figure)\n" +
        table_to_text(sweep_rows(best), width);
  }
  if (!sweep.notes.empty()) text += '\n';
  for (const std::string& note : sweep.notes) text += fmt::format("note: {}\n", note);
  return text;
}

std::string sweep_csv(const Sweep& sweep) {
  // All points of a sweep have the same columns, so the first point gives the header.
  const SweepRow first = sweep.rows.empty() ? SweepRow{} : sweep.rows.front();
  const std::set<std::string_view> joint = joint_figures(sweep.rows);
  std::string csv =
      csv_line(fields_of(first, joint), [](const Field& field) { return csv_field(field.first); });
  for (const SweepRow& row : sweep.rows) {
    csv += csv_line(fields_of(row, joint), [](const Field& field) { return csv_value(field.second); });
  }
  return csv;
}

std::string sweep_point_json(std::size_t number, const SweepPoint& point) {
  Json line = {{"point", number},
               {"row", row_json(point.row)},
               // The memory unit is not a column of the sweep, so it is stored beside the row.
               {"counts_activations", point.row.memory_unit == MemoryUnit::activations},
               {"notes", point.notes}};
  // The row has each varied value under its key. The list `varied` names these keys, so that a reader can
  // distinguish them from the row's other keys.
  if (!point.row.varied.empty()) {
    line["varied"] = Json::array();
    for (const auto& [key, value] : point.row.varied) line["varied"].push_back(key);
  }
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

tl::expected<std::pair<std::size_t, SweepPoint>, std::string> sweep_point_of_json(std::string_view line) {
  const auto parsed = json_of<Json>(line);
  if (!parsed) return tl::unexpected(fmt::format("expected a point of a sweep: {}", parsed.error()));
  const Json& object = *parsed;
  try {
    const MemoryUnit unit =
        object.at("counts_activations").get<bool>() ? MemoryUnit::activations : MemoryUnit::bytes;
    SweepPoint point{.row = row_of(object.at("row"), unit),
                     .notes = object.at("notes").get<std::vector<std::string>>()};
    if (object.contains("varied")) {
      for (const auto& key : object.at("varied").get<std::vector<std::string>>())
        point.row.varied.emplace_back(key, object.at("row").at(key).get<std::string>());
    }
    return std::pair(count_at<std::size_t>(object, "point"), std::move(point));
  } catch (const std::exception& fault) {
    return tl::unexpected(fmt::format("expected a point of a sweep: {}", fault.what()));
  }
}

std::string sweep_json(const Sweep& sweep) {
  const Json document = {{"schema_version", 1},
                         {"kind", "sweep"},
                         {"title", sweep.title},
                         {"rows", rows_json(sweep.rows)},
                         {"best", rows_json(best_per_schedule(sweep))},
                         {"notes", sweep.notes}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace penstock

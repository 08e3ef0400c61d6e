// Prints the parts of predicted steps (such as products, attention and bubble), and whether pairs of runs
// are in the right order. A factor such as "x1.07" says how much longer the part alone would have to take
// for the prediction to equal the measurement:
//
//     run     measured s  predicted s    error   from s    to s     products    attention  ..     bubble
//     a           5.6841       5.5120  -3.03 %   5.4010  5.9020  3.214 x1.05  0.731 x1.22  ..  0.51 x1.34

#include "cli/measured/runs_command.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "report/print/table.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "sim/hold/run_accuracy.hpp"
#include "text/escaping.hpp"

namespace penstock {

namespace {

using Json = nlohmann::ordered_json;

Cell long_seconds_cell(std::optional<double> seconds) {
  return {seconds ? fmt::format("{:.4f}", *seconds) : "", seconds};
}

Cell signed_percent_cell(double part) { return {fmt::format("{:+.2f} %", 100 * part), part}; }

/// Returns a table cell with the seconds of a part and its factor. The cell is empty if the part takes
/// almost no time compared with `step`, the seconds of the whole step.
Cell part_cell(double seconds, std::optional<double> factor, double step) {
  if (seconds < 1e-4 * step) return {"", std::nullopt};
  const std::string text = fmt::format("{:.3f}", seconds);
  return {factor ? fmt::format("{} x{:.2f}", text, *factor) : text, seconds};
}

Table explained_table(const RunsReport& report, std::span<const ExplainedRun> explained) {
  Table table;
  table.columns = {"run", "measured s", "predicted s", "error", "from s", "to s"};
  for (const std::string_view name : words_of<StepPart>()) table.columns.emplace_back(name);
  for (std::size_t i = 0; i < explained.size(); ++i) {
    const PredictedRun& row = report.rows[i];
    const auto& interval = explained[i].interval;
    std::vector<Cell> cells = {text_cell(row.id),
                               long_seconds_cell(row.measured_seconds),
                               long_seconds_cell(row.predicted_seconds),
                               signed_percent_cell(row.error),
                               long_seconds_cell(interval ? std::optional(interval->low) : std::nullopt),
                               long_seconds_cell(interval ? std::optional(interval->high) : std::nullopt)};
    for (std::size_t part = 0; part < kStepParts; ++part)
      cells.push_back(part_cell(explained[i].parts[part], explained[i].factors[part], row.predicted_seconds));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

/// The median of a part's factors, and their spread. The spread is the ratio of the largest to the smallest
/// factor, without the upper and the lower tenth.
struct UsualFactor {
  double median = 1;
  double spread = 1;
};
UsualFactor usual_factor(std::vector<double> factors) {
  std::ranges::sort(factors);
  const std::size_t tenth = factors.size() / 10;
  return {.median = factors[factors.size() / 2],
          .spread = factors[factors.size() - 1 - tenth] / std::max(factors[tenth], 1e-3)};
}

/// Returns a table with the usual factor of each part, for each class of runs. A part explains the errors
/// of a class if one factor suits all its rows, so that the spread is small.
Table factors_table(const MeasuredRuns& runs, std::span<const ExplainedRun> explained) {
  std::map<std::string, std::vector<std::size_t>> classes;
  for (std::size_t i = 0; i < explained.size(); ++i) classes[class_of(runs.runs[i])].push_back(i);
  Table table;
  table.columns = {"class", "rows"};
  for (const std::string_view name : words_of<StepPart>()) table.columns.emplace_back(name);
  for (const auto& [name, rows] : classes) {
    std::vector<Cell> cells = {text_cell(name), count_cell(static_cast<std::int64_t>(rows.size()))};
    for (std::size_t part = 0; part < kStepParts; ++part) {
      std::vector<double> factors;
      for (const std::size_t i : rows) {
        if (const auto& factor = explained[i].factors[part]) factors.push_back(*factor);
      }
      // The cell stays empty if at most half of the rows have a factor. The part then explains no class.
      if (2 * factors.size() <= rows.size()) {
        cells.push_back({"", std::nullopt});
        continue;
      }
      const UsualFactor usual = usual_factor(std::move(factors));
      cells.push_back({fmt::format("x{:.2f} ({:.2f})", usual.median, usual.spread), usual.median});
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::string line_of_csv(const std::vector<std::string>& cells) {
  std::vector<std::string> fields;
  fields.reserve(cells.size());
  for (const std::string& cell : cells) fields.push_back(csv_field(cell));
  return fmt::format("{}\n", fmt::join(fields, ","));
}

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json parts_json(const ExplainedRun& run) {
  Json parts = Json::array();
  for (std::size_t part = 0; part < kStepParts; ++part) {
    parts.push_back({{"name", words_of<StepPart>()[part]},
                     {"seconds", run.parts[part]},
                     {"factor", number_or_null(run.factors[part])}});
  }
  return parts;
}

}  // namespace

std::string explained_text(const MeasuredRuns& runs, const RunsReport& report,
                           std::span<const ExplainedRun> explained, std::size_t width) {
  return fmt::format(
      "{}\nThe parts are seconds of the rank that computes longest, and add up to the prediction. xN is the "
      "factor with which\nthis part alone would explain the measurement; no factor up to 8 does where none "
      "stands. The measured step lies\nfrom .. to .. with a probability of 90 %, as far as the other rows of "
      "the class show.\n\n{}\nThe median of the factors (and the largest over the smallest, without the "
      "outer "
      "tenths). A part whose factor is\nalike in all rows may be mispriced.\n",
      table_to_text(explained_table(report, explained), width),
      table_to_text(factors_table(runs, explained), width));
}

std::string explained_json(const MeasuredRuns& runs, const RunsReport& report,
                           std::span<const ExplainedRun> explained) {
  Json document = {{"schema_version", 1}, {"kind", "runs-explained"}, {"rows", Json::array()}};
  for (std::size_t i = 0; i < explained.size(); ++i) {
    const PredictedRun& row = report.rows[i];
    const auto& interval = explained[i].interval;
    document["rows"].push_back(
        {{"id", row.id},
         {"class", class_of(runs.runs[i])},
         {"measured_seconds", row.measured_seconds},
         {"predicted_seconds", row.predicted_seconds},
         {"error", row.error},
         {"interval", interval
                          ? Json{{"low", interval->low}, {"high", interval->high}, {"rows", interval->rows}}
                          : Json(nullptr)},
         {"parts", parts_json(explained[i])}});
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string explained_csv(const MeasuredRuns& runs, const RunsReport& report,
                          std::span<const ExplainedRun> explained) {
  std::vector<std::string> header = runs.header;
  header.insert(header.end(), {"predicted_seconds", "error", "low", "high"});
  for (const std::string_view name : words_of<StepPart>()) {
    header.push_back(fmt::format("{}_seconds", name));
    header.push_back(fmt::format("{}_factor", name));
  }
  std::string text = line_of_csv(header);
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : std::string();
  };
  for (std::size_t i = 0; i < explained.size(); ++i) {
    const PredictedRun& row = report.rows[i];
    const auto& interval = explained[i].interval;
    std::vector<std::string> cells = runs.runs[i].cells;
    cells.insert(cells.end(),
                 {number(row.predicted_seconds), number(row.error), interval ? number(interval->low) : "",
                  interval ? number(interval->high) : ""});
    for (std::size_t part = 0; part < kStepParts; ++part) {
      cells.push_back(number(explained[i].parts[part]));
      cells.push_back(number(explained[i].factors[part]));
    }
    text += line_of_csv(cells);
  }
  return text;
}

// --- pairs ------------------------------------------------------------------------------------------------

namespace {

Table counts_table(std::string_view heading, const std::vector<PairCount>& counts) {
  Table table;
  table.columns = {std::string(heading), "pairs", "right order", "part"};
  for (const PairCount& count : counts) {
    const double part = static_cast<double>(count.right) / static_cast<double>(count.pairs);
    table.rows.push_back({text_cell(count.name),
                          count_cell(static_cast<std::int64_t>(count.pairs)),
                          count_cell(static_cast<std::int64_t>(count.right)),
                          {fmt::format("{:.0f} %", 100 * part), part}});
  }
  return table;
}

std::size_t right_pairs(std::span<const RunPair> pairs) {
  return static_cast<std::size_t>(std::ranges::count_if(pairs, &RunPair::is_right));
}

Json counts_json(const std::vector<PairCount>& counts) {
  Json list = Json::array();
  for (const PairCount& count : counts)
    list.push_back({{"name", count.name}, {"pairs", count.pairs}, {"right", count.right}});
  return list;
}

}  // namespace

std::string pairs_text(const MeasuredRuns& runs, std::span<const RunPair> pairs, std::size_t width) {
  if (pairs.empty()) {
    return fmt::format(
        "No two rows do the same job (source, model, layers, device, devices, precision, sequence, batch) in "
        "times that differ by over {:.0f} %.\n",
        100 * kLeastPairDifference);
  }
  std::string text = fmt::format(
      "{}\n{}\n{} of {} pairs are in the right order. A pair does the same job, and its measured steps "
      "differ by over {:.0f} %.\n",
      table_to_text(counts_table("class", pairs_by_class(runs, pairs)), width),
      table_to_text(counts_table("source", pairs_by_source(runs, pairs)), width), right_pairs(pairs),
      pairs.size(), 100 * kLeastPairDifference);
  for (const RunPair& pair : pairs) {
    if (pair.is_right()) continue;
    text += fmt::format("wrong: {} takes {:.1f} % longer than {}, predicted {:+.1f} %\n",
                        shown_name(runs.runs[pair.slower].id), 100 * pair.measured,
                        shown_name(runs.runs[pair.faster].id), 100 * pair.predicted);
  }
  return text;
}

std::string pairs_json(const MeasuredRuns& runs, std::span<const RunPair> pairs) {
  Json document = {{"schema_version", 1},
                   {"kind", "run-pairs"},
                   {"pairs", pairs.size()},
                   {"right", right_pairs(pairs)},
                   {"classes", counts_json(pairs_by_class(runs, pairs))},
                   {"sources", counts_json(pairs_by_source(runs, pairs))},
                   {"wrong", Json::array()}};
  for (const RunPair& pair : pairs) {
    if (pair.is_right()) continue;
    document["wrong"].push_back({{"faster", runs.runs[pair.faster].id},
                                 {"slower", runs.runs[pair.slower].id},
                                 {"measured", pair.measured},
                                 {"predicted", pair.predicted}});
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace penstock

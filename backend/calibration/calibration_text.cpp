// Prints a calibration. The table shows the times under the load that the model uses, and beside them the
// times under the other load (alone or busy). The user can therefore see how much the ranks slow each
// other down. The JSON output also has both times. Tests: tests/backend/calibration_test.cpp.

#include "backend/calibration/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/calibration/calibration_samples.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "text/escaping.hpp"

namespace penstock {

namespace {

using Json = nlohmann::ordered_json;

/// Returns true if the model uses the times of this action kind from the `alone` runs. STEP is always
/// measured alone.
bool used_alone(const Calibration& calibration, ActionKind kind) {
  return calibration.options.load == CalibrationLoad::alone || kind == ActionKind::step;
}

Cell duration_cell(const Spread& spread) {
  if (spread.samples == 0) return {"", {}};
  return {format_duration(spread.mean_ns), static_cast<double>(spread.mean_ns)};
}

Cell median_cell(const Spread& spread) {
  return {format_duration(spread.median_ns), static_cast<double>(spread.median_ns)};
}

/// Returns a time as a table cell. A fitted line can have a negative constant. It is shown as 0, because a
/// negative time would confuse readers.
Cell rounded_cell(double ns) { return {format_duration(std::llround(std::max(0.0, ns))), ns}; }

Table stage_table(const Calibration& calibration) {
  const bool alone_is_model = calibration.options.load == CalibrationLoad::alone;
  Table table{.columns = {"stage", "kind"}, .rows = {}};
  for (const KindAtSize& size : calibration.stages.front().front().sizes)
    table.columns.push_back(fmt::format("{} samples", size.micro_batch_size));
  for (const char* column : {"overhead", "a sample", "spread"}) table.columns.emplace_back(column);
  table.columns.push_back(fmt::format("first, {}", alone_is_model ? "busy" : "alone"));
  for (std::size_t stage = 0; stage < calibration.stages.size(); ++stage) {
    for (const KindCalibration& kind : calibration.stages[stage]) {
      const bool alone = used_alone(calibration, kind.kind);
      const Line& line = alone ? kind.alone : kind.busy;
      std::vector<Cell> row = {{std::to_string(stage), static_cast<double>(stage)},
                               {std::string(letters(kind.kind)), {}}};
      double spread = 0;
      for (const KindAtSize& size : kind.sizes) {
        const Spread& shown = alone ? size.alone : size.busy;
        row.push_back(duration_cell(shown));
        spread = std::max(spread, shown.relative());
      }
      row.push_back(rounded_cell(line.constant));
      row.push_back(rounded_cell(line.slope));
      row.push_back({format_percent(spread), spread});
      row.push_back(duration_cell(alone_is_model ? kind.sizes.front().busy : kind.sizes.front().alone));
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

std::string rate_text(const LinkCalibration& link) {
  if (std::isinf(link.bytes_per_second)) return "unlimited";
  return format_bytes(std::llround(link.bytes_per_second)) + "/s";
}

Table link_table(const Calibration& calibration) {
  Table table{.columns = {"link", "message", "hop", "spread", "latency", "bandwidth", "from"}, .rows = {}};
  for (const LinkCalibration& link : calibration.links) {
    for (const LinkCalibration::Point& point : link.points) {
      const bool first = &point == &link.points.front();
      table.rows.push_back({{first ? link.name : "", {}},
                            {format_bytes(point.bytes), static_cast<double>(point.bytes)},
                            median_cell(point.hop),
                            {format_percent(point.hop.relative()), point.hop.relative()},
                            {first ? format_duration(link.latency_ns) : "", {}},
                            {first ? rate_text(link) : "", {}},
                            {!first                    ? ""
                             : link.bandwidth_measured ? "the hops"
                                                       : "the scenario: size made no difference",
                             {}}});
    }
  }
  return table;
}

std::string head(const Calibration& calibration) {
  const CalibrationOptions& options = calibration.options;
  return fmt::format(
      "{}: {} on {}, measured by {}\n"
      "{} of each kind, size and load, after {} that do not count; means. Spread: the middle half, at the\n"
      "widest. Alone: one microbatch at a time (of a split backward, W runs beside the stage before it).\n"
      "Busy: all ranks at once, by 1F1B. The model has the {} times, for {} a microbatch.\n",
      shown_name(calibration.scenario),
      format_count(static_cast<std::int64_t>(calibration.stages.size()), "stage"),
      format_count(calibration.ranks, "rank"), calibration.engine, format_count(options.samples, "sample"),
      options.warmup, to_text(options.load), format_count(calibration.own_micro_batch_size, "sample"));
}

std::string launch_line(const Calibration& calibration) {
  return fmt::format(
      "\nfrom one action's end to the next one's start: {} alone, {} busy (part of `overhead`)\n",
      format_duration(calibration.alone_launch.mean_ns), format_duration(calibration.busy_launch.mean_ns));
}

std::string peak_line(const Calibration& calibration) {
  if (calibration.peak_bytes.empty()) return "";
  std::string line = "peak memory by the modules' account, busy, at the smallest size:";
  for (const Bytes peak : calibration.peak_bytes) line += fmt::format(" {}", format_bytes(peak));
  return fmt::format("{}\n", line);
}

// --- JSON -----------------------------------------------------------------------------------------

Json spread_json(const Spread& spread) {
  return {{"mean_ns", spread.mean_ns},
          {"median_ns", spread.median_ns},
          {"middle_half_ns", spread.middle_half_ns},
          {"samples", spread.samples}};
}

Json line_json(const Line& line) { return {{"overhead_ns", line.constant}, {"ns_per_sample", line.slope}}; }

Json kind_json(const KindCalibration& kind) {
  Json sizes = Json::array();
  for (const KindAtSize& size : kind.sizes) {
    sizes.push_back({{"micro_batch_size", size.micro_batch_size},
                     {"alone", spread_json(size.alone)},
                     {"busy", spread_json(size.busy)}});
  }
  return {{"kind", std::string(letters(kind.kind))},
          {"sizes", std::move(sizes)},
          {"alone", line_json(kind.alone)},
          {"busy", line_json(kind.busy)}};
}

Json link_json(const LinkCalibration& link) {
  Json points = Json::array();
  for (const LinkCalibration::Point& point : link.points) {
    points.push_back({{"bytes", point.bytes}, {"hop", spread_json(point.hop)}});
  }
  return {
      {"link", link.name},
      {"points", std::move(points)},
      {"latency_ns", link.latency_ns},
      {"bytes_per_second", std::isinf(link.bytes_per_second) ? Json(nullptr) : Json(link.bytes_per_second)},
      {"bandwidth_measured", link.bandwidth_measured}};
}

}  // namespace

std::string calibration_to_table(const Calibration& calibration) {
  std::string text = fmt::format("{}\n{}{}{}", head(calibration), table_to_text(stage_table(calibration)),
                                 launch_line(calibration), peak_line(calibration));
  const Table links = link_table(calibration);
  if (!links.rows.empty()) text += fmt::format("\n{}", table_to_text(links));
  if (!calibration.notes.empty()) text += '\n';
  for (const std::string& note : calibration.notes) text += fmt::format("note: {}\n", note);
  return text;
}

std::string calibration_to_json(const Calibration& calibration) {
  Json stages = Json::array();
  for (const auto& kinds : calibration.stages) {
    Json stage = Json::array();
    for (const KindCalibration& kind : kinds) stage.push_back(kind_json(kind));
    stages.push_back(std::move(stage));
  }
  Json links = Json::array();
  for (const LinkCalibration& link : calibration.links) links.push_back(link_json(link));
  const CalibrationOptions& options = calibration.options;
  const Json document = {
      {"schema_version", 1},
      {"scenario", calibration.scenario},
      {"engine", calibration.engine},
      {"ranks", calibration.ranks},
      {"micro_batch_size", calibration.own_micro_batch_size},
      {"warmup", options.warmup},
      {"samples", options.samples},
      {"load", std::string(to_text(options.load))},
      {"stages", std::move(stages)},
      {"launch",
       {{"alone", spread_json(calibration.alone_launch)}, {"busy", spread_json(calibration.busy_launch)}}},
      {"links", std::move(links)},
      {"peak_bytes", calibration.peak_bytes},
      {"notes", calibration.notes}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Writes the parts `model:` and `cluster:` of a scenario to one file, with the functions that write
// scenarios. A prediction can then read measured values exactly as it reads values that a user has typed.

std::string cost_file(const Calibration& calibration) {
  const std::string head = fmt::format(
      "Measured by `penstock calibrate`. A scenario takes it by `model: FILE` and `cluster: FILE`, or for "
      "once:\n"
      "penstock simulate SCENARIO --set model=FILE --set cluster=FILE\n\n{}\n{}",
      calibration_to_table(calibration),
      calibration.counted_bytes ? "Bytes are what the modules hold and send." : "Bytes are the scenario's.");
  const std::string text = fmt::format("{}\n{}", comment_to_yaml(head),
                                       stages_to_yaml(calibration.model, calibration.own_micro_batch_size));
  if (!calibration.cluster)
    return text + comment_to_yaml("The cluster is given link by link: keep the scenario's.");
  // A calibrated cluster always has a text form, so value() cannot fail.
  return text + cluster_to_yaml(*calibration.cluster).value();
}

}  // namespace penstock

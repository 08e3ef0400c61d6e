// Writes the page of a Sweep (many configurations). It names the fastest configuration that fits and shows
// what each schedule gains with more memory. Then it shows the best configurations. For each schedule, two
// charts and a map of K and M follow. The omitted points and all points come last. result_html.cpp writes
// the page of one Result instead. Tested by html_report_test.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/pages/html_report.hpp"
#include "report/print/chart_svg.hpp"
#include "report/print/html_page.hpp"
#include "report/print/palette.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/sweep_table.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"
#include "text/escaping.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

using Rows = std::vector<const SweepRow*>;

Rows rows_of(const Sweep& sweep, const std::string& schedule) {
  Rows rows;
  for (const SweepRow& row : sweep.rows) {
    if (row.schedule == schedule) rows.push_back(&row);
  }
  return rows;
}

/// The x axis of the charts, which also gives the order of the map's columns. It usually shows M. If all
/// points have the same M, it shows a varied key whose values are numbers of one unit.
class PointAxis {
 public:
  explicit PointAxis(const Sweep& sweep) {
    const auto same_m = [&](const SweepRow& row) { return row.microbatches == sweep.rows[0].microbatches; };
    const std::size_t keys = sweep.rows.empty() ? 0 : sweep.rows[0].varied.size();
    for (std::size_t i = 0; i < keys && !key_ && std::ranges::all_of(sweep.rows, same_m); ++i) {
      const auto& [key, value] = sweep.rows[0].varied[i];
      const std::string_view unit = unit_of(value);
      const auto fits = [&](const SweepRow& row) {
        const std::string& other = row.varied[i].second;
        return leading_number<double>(other).value.has_value() && unit_of(other) == unit;
      };
      const auto differs = [&](const SweepRow& row) { return row.varied[i].second != value; };
      if (!std::ranges::all_of(sweep.rows, fits) || std::ranges::none_of(sweep.rows, differs)) continue;
      key_ = i;
      label_ = unit.empty() ? key : fmt::format("{} [{}]", key, unit);
      // A logarithmic axis (log2) cannot show 0, so the axis is then linear.
      const auto above_0 = [&](const SweepRow& row) { return position(row) > 0; };
      is_linear_ = !std::ranges::all_of(sweep.rows, above_0);
    }
  }

  const std::string& label() const { return label_; }
  AxisScale scale() const { return is_linear_ ? AxisScale::linear : AxisScale::log2; }
  double position(const SweepRow& row) const {
    return key_ ? *leading_number<double>(row.varied[*key_].second).value : row.microbatches;
  }
  /// Returns the heading of the map's column that contains this point.
  std::string heading(const SweepRow& row) const {
    return key_ ? row.varied[*key_].second : fmt::format("M = {}", row.microbatches);
  }
  /// Returns the values of the varied keys that are not on this axis, as text.
  std::string other_values(const SweepRow& row) const {
    VariedValues others = row.varied;
    if (key_) others.erase(others.begin() + static_cast<std::ptrdiff_t>(*key_));
    return varied_text(others);
  }

 private:
  static std::string_view unit_of(std::string_view value) {
    value.remove_prefix(leading_number<double>(value).spelling.size());
    return value.substr(std::min(value.size(), value.find_first_not_of(' ')));
  }

  std::optional<std::size_t> key_;  // The index of the key on the axis; absent if the axis is M.
  std::string label_ = "microbatches M";
  bool is_linear_ = false;
};

/// The fields that distinguish the curves of one schedule. The microbatch size is normally 0. It is set only
/// if several points agree in all other fields and in their position on the x axis.
struct CurveKey {
  std::string varied{};  ///< the varied values that are not on the x axis, as text
  std::int32_t stages = 0;
  std::int32_t virtual_stages = 0;
  double micro_batch_size = 0;

  friend auto operator<=>(const CurveKey&, const CurveKey&) = default;
};

/// Returns the points of one schedule, grouped by curve. The points of each curve are ordered by the axis.
std::map<CurveKey, Rows> curves_of(const Rows& rows, const PointAxis& axis) {
  const auto key_of = [&](const SweepRow& row, double micro_batch_size) {
    return CurveKey{axis.other_values(row), row.stages, row.virtual_stages, micro_batch_size};
  };
  std::set<std::pair<CurveKey, double>> seen;
  bool unique = true;
  for (const SweepRow* row : rows) unique &= seen.insert({key_of(*row, 0), axis.position(*row)}).second;
  std::map<CurveKey, Rows> curves;
  for (const SweepRow* row : rows)
    curves[key_of(*row, unique ? 0 : row->micro_batch_size.value_or(0))].push_back(row);
  for (auto& [key, curve] : curves)
    std::ranges::stable_sort(curve, {}, [&](const SweepRow* row) { return axis.position(*row); });
  return curves;
}

/// Returns the name of a curve: "K = 4, v = 2, b = 8, cluster.latency = 4us". Some fields are omitted: v of
/// 1, and a microbatch size or varied values that do not distinguish curves.
std::string label_of(const CurveKey& key) {
  std::string label = fmt::format("K = {}", key.stages);
  if (key.virtual_stages > 1) label += fmt::format(", v = {}", key.virtual_stages);
  if (key.micro_batch_size > 0) label += fmt::format(", b = {}", format_quantity(key.micro_batch_size));
  if (!key.varied.empty()) label += ", " + key.varied;
  return label;
}

Chart chart_against(const PointAxis& axis, std::string title, std::string y_label, AxisUnit unit) {
  Chart chart;
  chart.title = std::move(title);
  chart.x_label = axis.label();
  chart.y_label = std::move(y_label);
  chart.y_unit = unit;
  // Sweeps often use powers of two for M, and each doubling of M roughly halves the bubble. So the x axis may
  // be logarithmic.
  chart.x_scale = axis.scale();
  return chart;
}

Chart throughput_chart(const std::map<CurveKey, Rows>& curves, const PointAxis& axis) {
  const bool steady = std::ranges::all_of(curves, [](const auto& curve) {
    return std::ranges::all_of(curve.second, [](const SweepRow* row) {
      return !was_simulated(*row) || row->throughput.steady_samples_per_second.has_value();
    });
  });
  // The chart shows steady rates if all points have one, and otherwise the rates of the runs. A chart must
  // not mix them, because the rate of a short run includes the filling of the pipeline.
  Chart chart = chart_against(
      axis, "Throughput",
      fmt::format("samples/s {}; hollow: does not fit into memory", steady ? "steady" : "over the run"),
      AxisUnit::plain);
  std::size_t index = 0;
  for (const auto& [key, rows] : curves) {
    ChartCurve curve = {.label = label_of(key), .colour = curve_colour(index++, curves.size()), .dots = true};
    for (const SweepRow* row : rows) {
      if (!was_simulated(*row)) continue;
      curve.points.push_back({axis.position(*row),
                              steady ? ranking_rate(*row) : row->throughput.samples_per_second,
                              row->status == SweepStatus::out_of_memory});
    }
    if (!curve.points.empty()) chart.curves.push_back(std::move(curve));
  }
  return chart;
}

/// Returns a chart of the bubble (idle share) with one curve for each key. If there is a published formula
/// for the schedule, a dashed curve shows it.
Chart bubble_chart(const std::map<CurveKey, Rows>& curves, const PointAxis& axis) {
  Chart chart = chart_against(axis, "Bubble", "idle over total; dashed: closed form", AxisUnit::percent);
  std::size_t index = 0;
  for (const auto& [key, rows] : curves) {
    ChartCurve measured = {
        .label = label_of(key), .colour = curve_colour(index++, curves.size()), .dots = true};
    // Dashed curves have no label, because the title of the y axis explains them.
    ChartCurve formula = {.label = "", .colour = lightened(measured.colour, 0.35), .dashed = true};
    for (const SweepRow* row : rows) {
      if (!was_simulated(*row)) continue;
      const double x = axis.position(*row);
      measured.points.push_back({.x = x, .y = row->bubble.idle_over_total});
      if (row->closed_form_bubble) formula.points.push_back({.x = x, .y = *row->closed_form_bubble});
    }
    if (!measured.points.empty()) chart.curves.push_back(std::move(measured));
    if (!formula.points.empty()) chart.curves.push_back(std::move(formula));
  }
  return chart;
}

/// Returns the cell of one point in the map. It shows the rate, or the reason why there is no rate. The
/// colour shows the ratio of the rate to `best`, the best rate of the schedule.
std::string map_cell(const SweepRow& row, double best) {
  switch (row.status) {
    case SweepStatus::ok: {
      const double rate = ranking_rate(row);
      // The colour of the best rate contains 15 % of white, and a rate of 0 is white.
      const Colour colour = lightened({0x3b, 0x6f, 0xb6}, best > 0 ? 1 - 0.85 * rate / best : 1);
      return fmt::format("<td style=\"background:{};color:{}\"{}>{}</td>", to_hex(colour),
                         to_hex(text_colour_on(colour)), rate == best ? " class=\"best\"" : "",
                         format_rate(rate));
    }
    case SweepStatus::out_of_memory:
      return fmt::format("<td class=\"out_of_memory\" title=\"{}\">{}</td>", xml_escaped(row.reason),
                         format_memory(row.peak_bytes, row.memory_unit));
    case SweepStatus::skipped:
    case SweepStatus::failed:
      return fmt::format("<td class=\"{0}\" title=\"{1}\">{0}</td>", to_text(row.status),
                         xml_escaped(row.reason));
  }
  return "";
}

/// Returns the map, which shows where a schedule fits into memory and how fast it is. It has a table row for
/// each curve and a column for each M, or for each value of the axis.
std::string map_html(const std::map<CurveKey, Rows>& curves, const PointAxis& axis) {
  std::map<double, std::string> headings;
  double best = 0;
  for (const auto& [key, rows] : curves) {
    for (const SweepRow* row : rows) {
      headings.emplace(axis.position(*row), axis.heading(*row));
      if (row->status == SweepStatus::ok) best = std::max(best, ranking_rate(*row));
    }
  }
  std::string html = "<div class=\"scroll\">\n<table class=\"fit\">\n<thead><tr><th></th>";
  for (const auto& [x, heading] : headings) html += fmt::format("<th>{}</th>", xml_escaped(heading));
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& [key, rows] : curves) {
    html += fmt::format("<tr><th>{}</th>", xml_escaped(label_of(key)));
    for (const auto& [x, heading] : headings) {
      const auto found = std::ranges::find(rows, x, [&](const SweepRow* row) { return axis.position(*row); });
      html += found == rows.end() ? "<td class=\"absent\"></td>" : map_cell(**found, best);
    }
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table>\n</div>\n";
}

/// Returns the HTML section of one schedule, with its charts and its map (a table whose cells show samples
/// per second). If none of its points was simulated, there are no charts, and the cells of the map show why.
std::string schedule_section(const Sweep& sweep, const PointAxis& axis, const std::string& schedule) {
  const auto curves = curves_of(rows_of(sweep, schedule), axis);
  std::string html = fmt::format("<section class=\"schedule\">\n<h2>{}</h2>\n", xml_escaped(schedule));
  const Chart throughput = throughput_chart(curves, axis);
  if (!throughput.curves.empty()) {
    html += fmt::format("<div class=\"charts\">\n{}{}</div>\n", chart_to_svg(throughput),
                        chart_to_svg(bubble_chart(curves, axis)));
  }
  html += "<h3>Samples/s where it fits, the peak of memory where it does not</h3>\n";
  return html + map_html(curves, axis) + "</section>\n";
}

/// Returns the numbers of ranks (K) and microbatches (M) of points as text, such as "K = 2: M = 1, 2, 4; K
/// = 4: M = 1".
std::string shapes_text(const Rows& rows) {
  std::string text;
  std::string previous;
  for (const SweepRow* row : rows) {
    const std::string label = label_of({varied_text(row->varied), row->stages, row->virtual_stages, 0});
    if (label == previous) {
      text += fmt::format(", {}", row->microbatches);
    } else {
      text += fmt::format("{}{}: M = {}", text.empty() ? "" : "; ", label, row->microbatches);
    }
    previous = label;
  }
  return text;
}

/// The key by which omitted points are grouped. One reason usually explains many points.
struct LeftOut {
  std::string schedule;
  // The groups are sorted by peak before reason. The reason begins with the peak as text, and a sort by text
  // would put the peaks into the wrong order.
  Bytes peak_bytes = 0;
  std::string reason;

  friend auto operator<=>(const LeftOut&, const LeftOut&) = default;
};

/// Returns a section with the points that have this status, grouped by reason. Points that ran out of
/// memory are also grouped by their memory peak.
std::string left_out_html(const Sweep& sweep, SweepStatus status, std::string_view heading) {
  std::map<LeftOut, Rows> groups;
  for (const SweepRow& row : sweep.rows) {
    if (row.status == status) groups[{row.schedule, row.peak_bytes, row.reason}].push_back(&row);
  }
  if (groups.empty()) return "";
  const bool peaks = status == SweepStatus::out_of_memory;
  Table table;
  table.columns = {"schedule", "why", "points", "shapes"};
  if (peaks) table.columns.insert(table.columns.begin() + 1, "peak memory");
  for (const auto& [key, rows] : groups) {
    std::vector<Cell> row = {{key.schedule, std::nullopt},
                             {key.reason, std::nullopt},
                             {std::to_string(rows.size()), static_cast<double>(rows.size())},
                             {shapes_text(rows), std::nullopt}};
    if (peaks) {
      row.insert(row.begin() + 1, Cell{format_memory(key.peak_bytes, rows.front()->memory_unit),
                                       shown_amount(key.peak_bytes, rows.front()->memory_unit)});
    }
    table.rows.push_back(std::move(row));
  }
  return fmt::format("<h2>{}</h2>\n<div class=\"scroll\">\n{}</div>\n", heading, table_to_html(table));
}

/// Returns a text that compares the memory of `row` with the memory of `other`, such as "and needs as much
/// memory".
std::string memory_difference(const SweepRow& row, const SweepRow& other) {
  const Bytes more = row.peak_bytes - other.peak_bytes;
  if (more == 0) return "needs as much memory";
  return fmt::format("needs {} {}", format_memory(more > 0 ? more : -more, row.memory_unit),
                     more > 0 ? "more" : "less");
}

/// Returns a sentence that names the fastest point that fits. It also says how much faster this point is
/// than the best points of the other schedules.
std::string answer_html(const std::vector<SweepRow>& best) {
  const SweepRow& first =
      *std::ranges::min_element(best, [](const SweepRow& a, const SweepRow& b) { return ranks_above(a, b); });
  std::string html = fmt::format(
      "<p class=\"answer\"><strong>{}</strong> is the fastest configuration that fits: {} samples/s. Its "
      "fullest "
      "rank needs {}.</p>\n",
      xml_escaped(point_text(first)), format_rate(ranking_rate(first)),
      format_memory(first.peak_bytes, first.memory_unit));
  for (const SweepRow& other : best) {
    const double ratio = ranking_rate(first) / ranking_rate(other);
    // A point with only the rate of its run ranks below a point with a steady rate, although its rate may be
    // higher. Such a point is not compared.
    if (&other == &first || !(ratio >= 1) || !std::isfinite(ratio)) continue;
    const std::string faster =
        ratio > 1 ? fmt::format("{} faster than", format_percent(ratio - 1)) : "as fast as";
    html += fmt::format("<p>It is {} {}, and {}.</p>\n", faster, xml_escaped(point_text(other)),
                        memory_difference(first, other));
  }
  return html;
}

/// Returns the points of a schedule that fit into memory and are not beaten, ordered by memory. A point is
/// beaten if another point of the schedule is better in both rate and memory.
Rows front_of(Rows rows) {
  std::erase_if(rows, [](const SweepRow* row) { return row->status != SweepStatus::ok; });
  std::ranges::stable_sort(rows, [](const SweepRow* a, const SweepRow* b) {
    return a->peak_bytes != b->peak_bytes ? a->peak_bytes < b->peak_bytes : ranks_above(*a, *b);
  });
  Rows front;
  for (const SweepRow* row : rows) {
    if (front.empty() || ranking_rate(*row) > ranking_rate(*front.back())) front.push_back(row);
  }
  return front;
}

/// Returns a chart with one curve for each schedule. The curve shows how the rate of its best points grows
/// with more memory.
std::string front_html(const Sweep& sweep) {
  constexpr double kGibibyte = 1024.0 * 1024 * 1024;
  const std::vector<std::string> schedules = schedules_of(sweep);
  const bool in_bytes = !sweep.rows.empty() && sweep.rows.front().memory_unit == MemoryUnit::bytes;
  Chart chart;
  chart.title = "Throughput and memory";
  chart.y_label = "samples/s of the points that no point of their schedule beats in both";
  chart.x_label = in_bytes ? "GiB on the fullest rank" : "activations on the fullest rank";
  chart.width = 800;
  std::size_t index = 0;
  std::size_t points = 0;
  double fastest = 0;
  for (const std::string& schedule : schedules) {
    ChartCurve curve = {.label = schedule, .colour = curve_colour(index++, schedules.size()), .dots = true};
    for (const SweepRow* row : front_of(rows_of(sweep, schedule))) {
      const double amount = shown_amount(row->peak_bytes, row->memory_unit);
      fastest = std::max(fastest, ranking_rate(*row));
      curve.points.push_back({.x = in_bytes ? amount / kGibibyte : amount,
                              .y = ranking_rate(*row),
                              .name = point_text(*row),
                              .mark = fmt::format("K {} M {}", row->stages, row->microbatches)});
    }
    // Marks of all points would cover each other, so only the ends of a curve have one.
    for (std::size_t i = 1; i + 1 < curve.points.size(); ++i) curve.points[i].mark.clear();
    points += curve.points.size();
    if (!curve.points.empty()) chart.curves.push_back(std::move(curve));
  }
  if (sweep.usable_bytes && in_bytes) {
    const double usable = static_cast<double>(*sweep.usable_bytes) / kGibibyte;
    ChartCurve limit = {.label = "usable memory", .dashed = true};
    limit.points = {{.x = usable, .y = 0}, {.x = usable, .y = fastest}};
    chart.curves.push_back(std::move(limit));
  }
  return points < 2 ? "" : chart_to_svg(chart);
}

/// Returns the bills of the best point and of the runner-up, as far as the sweep has them.
std::vector<NamedBill> best_bills(const Sweep& sweep) {
  std::vector<NamedBill> bills;
  for (const std::size_t number : best_two(sweep)) {
    const auto bill = sweep.bills.find(number);
    if (bill != sweep.bills.end()) bills.push_back({point_text(sweep.rows[number]), bill->second});
  }
  return bills;
}

std::string best_html(const Sweep& sweep) {
  const std::vector<SweepRow> best = best_per_schedule(sweep);
  const std::vector<NamedBill> bills = best_bills(sweep);
  if (best.empty()) return "<p class=\"alarm\">No configuration ran and fits into memory.</p>\n";
  return answer_html(best) +
         table_section("Where the time goes, of the mean rank",
                       bills.empty() ? Table{} : bills_table(bills)) +
         front_html(sweep) +
         "<h2>Best of each schedule</h2>\n<p class=\"note\">By steady samples/s; by those of the run where "
         "there is no "
         "steady figure.</p>\n<div class=\"scroll\">\n" +
         table_to_html(sweep_rows(best)) + "</div>\n";
}

}  // namespace

std::string sweep_to_html(const Sweep& sweep) {
  HtmlPage page;
  page.title = sweep.title.empty() ? "Sweep" : sweep.title;
  page.body = best_html(sweep);
  for (const std::string& note : sweep.notes)
    page.body += fmt::format("<p class=\"note\">Note: {}</p>\n", xml_escaped(note));
  const PointAxis axis(sweep);
  for (const std::string& schedule : schedules_of(sweep))
    page.body += schedule_section(sweep, axis, schedule);
  page.body += "<p class=\"printed\">Further schedules are on the screen only.</p>\n";
  page.body += left_out_html(sweep, SweepStatus::out_of_memory, "What does not fit into memory");
  page.body += left_out_html(sweep, SweepStatus::failed, "What failed");
  page.body += left_out_html(sweep, SweepStatus::skipped, "What was skipped");
  page.body +=
      "<h2>All rows</h2>\n<div class=\"scroll\">\n" + table_to_html(sweep_rows(sweep.rows)) + "</div>\n";
  return html_page(page);
}

}  // namespace penstock

// Prints the answer of `penstock tune`: a summary, the best configuration, the next ones, the Pareto front
// of time and memory, and the cost of each choice.

#include "cli/commands/tune_answer.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "report/print/chart_svg.hpp"
#include "report/print/html_page.hpp"
#include "report/print/palette.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/why/explanation.hpp"
#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/action.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/tune.hpp"
#include "sim/choose/tune_questions.hpp"
#include "text/escaping.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

/// Returns the model, devices and batch of the search as text. An example is "llama of 8.03 B parameters on 8
/// x h100-sxm, sequence 8192, global batch 128, bf16".
std::string question_text(const TuneAnswer& answer) {
  const TuneRequest& request = answer.request;
  const Workload& work = model_of(request).work;
  const std::int64_t devices = device_count(answer.report.candidates.front().configuration);
  return fmt::format("{} of {:.2f} B parameters on {}, sequence {}, global batch {}, {}", work.model.family,
                     static_cast<double>(parameters(work.model)) * 1e-9, devices_text(request, devices),
                     work.sequence, request.global_batch_size, to_text(work.precision));
}

/// Returns a text with the number of configurations, and the reasons why some were not timed.
std::string effort_text(const TuneAnswer& answer) {
  const TuneReport& report = answer.report;
  std::string text =
      fmt::format("{} configurations: {} timed, {} too large, {} too slow by their bounds", report.space,
                  report.evaluated, report.pruned_by_memory, report.pruned_by_time);
  std::size_t left_out = 0;
  for (const LeftOut& one : report.left_out) left_out += one.configurations;
  if (left_out > 0) text += fmt::format(", {} cannot run", left_out);
  return text + fmt::format("; {:.2f} s", answer.seconds);
}

/// Returns one reason why configurations cannot run, as text. An example is "cannot run: 312 of zb-v: zb-v
/// with 4 stages and 32 microbatches hangs under these channels". Configurations whose reasons differ only
/// in numbers share the text of the first one.
std::string left_out_text(const LeftOut& left_out) {
  return fmt::format("cannot run: {} of {}: {}", left_out.configurations, left_out.schedule, left_out.reason);
}

std::string best_text(const TuneAnswer& answer) {
  const TunedConfiguration& best = answer.report.candidates.front();
  if (!best.fits) return "nothing fits in memory; the fastest is listed first";
  const std::optional<Bytes> usable = best.usable_bytes;
  return fmt::format("best: {}\n      {:.1f} tokens/s a device, MFU {}, {:.4f} s a step, {}{} GiB{}",
                     configuration_text(answer.request, best), best.tokens_per_second_per_device,
                     format_percent(best.mfu), step_seconds(best), gib(best.peak_bytes),
                     usable ? " of " + gib(*usable) : "", usable ? " usable" : "");
}

/// Returns two sentences on accuracy. The first names the configurations that are as fast as the best
/// within the accuracy of predictions. The second is about the nearest measured run. After an interrupt,
/// the text is empty.
std::string accuracy_text(const TuneAnswer& answer, const std::vector<std::size_t>& rows) {
  if (!answer.accuracy) return {};
  if (rows.size() < 2) return fmt::format("{}\n", nearest_text(answer.accuracy->nearest));
  const auto as_good =
      std::ranges::count_if(rows, [&](std::size_t number) { return answer.accuracy->groups[number] == 0; });
  const PairSpread& spread = answer.accuracy->spread;
  return fmt::format(
      "{} of the {} listed cannot be distinguished from the best: predicted ratios of two configurations of "
      "one measured job are wrong by {:.1f} % ({} pairs, {} jobs), and theirs are within twice that\n{}\n",
      as_good - 1, rows.size() - 1, 100 * std::expm1(spread.deviation), spread.pairs, spread.jobs,
      nearest_text(answer.accuracy->nearest));
}

/// Returns a line about the Pareto front: the configurations that no other beats in both time and memory.
std::string front_text(const TuneAnswer& answer) {
  const TuneReport& report = answer.report;
  if (report.front.empty()) return {};
  const TunedConfiguration& smallest = *std::ranges::min_element(
      report.candidates, {}, [](const TunedConfiguration& tuned) { return tuned.peak_bytes; });
  return fmt::format(
      "{} configurations are not beaten in time and memory, down to {} GiB at {:+.1f} %; --details lists "
      "them, "
      "and what each choice costs\n",
      report.front.size(), gib(smallest.peak_bytes), 100 * gain_against(smallest, report.candidates.front()));
}

/// Returns a sentence about the rows whose step times are estimates, or an empty text if there are none.
std::string estimates_text(const TuneAnswer& answer, const std::vector<std::size_t>& rows) {
  const auto is_estimated = [&](std::size_t number) { return answer.report.candidates[number].estimated; };
  if (std::ranges::none_of(rows, is_estimated)) return "";
  return "~ marks an estimate: for such a row `simulate` may balance the layers better or find a better "
         "order";
}

/// Returns a chart of speed over memory, with a dot for each configuration that needs at most twice the
/// usable memory. Larger ones would leave no room to tell the others apart. A line connects the
/// configurations that no other beats in both.
Chart front_chart(const TuneAnswer& answer) {
  const TuneReport& report = answer.report;
  // Each dot has the number of its row in the table.
  const auto is_drawn = [&](std::size_t number) {
    return !report.usable || report.candidates[number].peak_bytes / 2 <= *report.usable;
  };
  const auto point = [&](std::size_t number) {
    const TunedConfiguration& tuned = report.candidates[number];
    return ChartPoint{.x = static_cast<double>(tuned.peak_bytes) / kBytesPerGibibyte,
                      .y = tuned.tokens_per_second_per_device,
                      .name = fmt::format("{}: {}", number + 1, configuration_text(answer.request, tuned))};
  };
  Chart chart;
  chart.title = "Tokens per second and device over memory";
  chart.x_label =
      report.usable ? "GiB of the fullest device, up to twice the usable" : "GiB of the fullest device";
  chart.y_label = "tokens/s/device";
  chart.width = 760;
  chart.height = 420;
  for (std::size_t number = 0; number < report.candidates.size(); ++number) {
    if (!is_drawn(number)) continue;
    ChartCurve dot{.label = chart.curves.empty() ? "configurations" : ""};
    dot.colour = curve_colour(0, 2);
    dot.dots = true;
    dot.points = {point(number)};
    // The best configuration gets its mark first, so that no other mark takes its place.
    if (number == 0) dot.points.front().mark = "1";
    chart.curves.push_back(std::move(dot));
  }
  ChartCurve front{.label = "not beaten"};
  front.colour = curve_colour(1, 2);
  front.dots = true;
  for (const std::size_t number : report.front) {
    if (!is_drawn(number)) continue;
    front.points.push_back(point(number));
    if (number > 0) front.points.back().mark = std::to_string(number + 1);
  }
  std::ranges::sort(front.points, {}, &ChartPoint::x);
  const double fastest = front.points.empty() ? 0 : front.points.back().y;
  chart.curves.push_back(std::move(front));
  if (report.usable) {
    ChartCurve limit{.label = "usable memory"};
    limit.dashed = true;
    const double usable = static_cast<double>(*report.usable) / kBytesPerGibibyte;
    limit.points = {{.x = usable, .y = 0}, {.x = usable, .y = fastest}};
    chart.curves.push_back(std::move(limit));
  }
  return chart;
}

}  // namespace

std::string tune_text(const TuneAnswer& answer, std::size_t width, TuneTables tables) {
  const TuneReport& report = answer.report;
  const std::vector<std::size_t> shown = shown_configurations(answer);
  std::string text = fmt::format("{}\n{}\n", question_text(answer), effort_text(answer));
  for (const LeftOut& one : report.left_out) text += left_out_text(one) + '\n';
  text += '\n' + table_to_text(configurations_table(answer, shown), width);
  std::vector<std::size_t> rows = shown;
  if (tables == TuneTables::all) rows.insert(rows.end(), report.front.begin(), report.front.end());
  const std::string estimates = estimates_text(answer, rows);
  if (tables == TuneTables::all) {
    text += fmt::format("\nNot beaten in time and memory\n{}\nWhat each choice costs\n{}",
                        table_to_text(configurations_table(answer, report.front), width),
                        table_to_text(choices_table(answer), width));
  } else {
    text += front_text(answer);
  }
  if (!estimates.empty()) text += estimates + '\n';
  if (!answer.sensitivity.empty()) {
    text += fmt::format("\nOn machines with one figure changed\n{}",
                        table_to_text(sensitivity_table(answer), width));
  }
  for (const std::string& note : answer.report.notes) text += fmt::format("\nnote: {}\n", note);
  if (!answer.launch.empty()) text += "\n" + answer.launch;
  return text + fmt::format("\n{}\n{}", best_text(answer), accuracy_text(answer, shown));
}

std::string tune_html(const TuneAnswer& answer, const TunePage& extra) {
  const std::vector<std::size_t> shown = shown_configurations(answer);
  HtmlPage page;
  page.title = "The fastest configuration";
  page.body = fmt::format("<p>{}</p>\n<pre class=\"answer\">{}</pre>\n", xml_escaped(question_text(answer)),
                          xml_escaped(best_text(answer)));
  page.body += fmt::format("<pre>{}</pre>\n", xml_escaped(extra.launch));
  if (!extra.bills.empty())
    page.body += table_section("Where the time goes, of the mean rank", bills_table(extra.bills));
  page.body += fmt::format("<p class=\"note\">{}</p>\n{}\n", xml_escaped(effort_text(answer)),
                           chart_to_svg(front_chart(answer)));
  for (const LeftOut& one : answer.report.left_out)
    page.body += fmt::format("<p class=\"note\">{}</p>\n", xml_escaped(left_out_text(one)));
  page.has_filters = true;
  page.body += fmt::format(
      "<h2>Configurations</h2>\n<input class=\"filter\" size=\"60\" placeholder=\"rows with: zb-v pp=4 "
      "fits=yes\"/>\n<div class=\"scroll\">\n{}</div>\n",
      table_to_html(configurations_table(answer, shown)));
  if (const std::string estimates = estimates_text(answer, shown); !estimates.empty())
    page.body += fmt::format("<p class=\"note\">{}</p>\n", xml_escaped(estimates));
  if (answer.accuracy)
    page.body += fmt::format("<p class=\"note\">{}</p>\n", xml_escaped(accuracy_text(answer, shown)));
  page.body +=
      table_section("Not beaten in time and memory", configurations_table(answer, answer.report.front));
  page.body += table_section("What each choice costs", choices_table(answer));
  if (!answer.sensitivity.empty())
    page.body += table_section("On machines with one figure changed", sensitivity_table(answer));
  for (const std::string& note : answer.report.notes)
    page.body += fmt::format("<p class=\"note\">{}</p>\n", xml_escaped(note));
  return html_page(page);
}

std::string space_text(const TuneRequest& request, const std::vector<Configuration>& space) {
  std::string text;
  for (const Configuration& of : space) {
    text += fmt::format(
        "nodes {} tensor {} context {} {} expert {} data {} order {}{} stages {} virtual {} {} {} microbatch "
        "{} x {} "
        "recompute {} sharding {}{}\n",
        of.nodes, of.tensor, of.context, to_text(of.context_exchange), of.expert, of.data, to_text(of.order),
        model_of(request).kinds.empty() ? "" : fmt::format(" groups {}", to_text(of.group_order)), of.stages,
        of.virtual_stages, of.schedule, split_text(request, of), of.micro_batch_size, of.microbatches,
        recompute_text(request, of.recompute), of.sharding,
        may_offload(request) ? " offload " + offload_text(of.offload) : "");
  }
  return text + fmt::format("{} configurations\n", space.size());
}

// Writes the answer as JSON and CSV. Each candidate has the fields of its configuration and its figures in
// both. JSON has all candidates, and its front and choices refer to them by number. CSV has only the rows of
// the table.

namespace {

using Json = nlohmann::ordered_json;

/// Returns the configuration as JSON. Parallel degrees have the same names as in a scenario's `parallel`.
Json configuration_json(const TuneRequest& request, const Configuration& of) {
  Json object = {{"nodes", of.nodes},
                 {"tensor", of.tensor},
                 {"context", of.context},
                 {"context_exchange", to_text(of.context_exchange)},
                 {"expert", of.expert},
                 {"data", of.data},
                 {"order", to_text(of.order)},
                 {"stages", of.stages},
                 {"virtual_stages", of.virtual_stages},
                 {"schedule", of.schedule},
                 {"layer_split", split_text(request, of)},
                 {"micro_batch_size", of.micro_batch_size},
                 {"microbatches", of.microbatches},
                 {"recompute", recompute_text(request, of.recompute)},
                 {"sharding", of.sharding}};
  // Only unlike devices have an order of groups.
  if (!model_of(request).kinds.empty()) object["group_order"] = to_text(of.group_order);
  if (may_offload(request)) object["offload"] = static_cast<double>(of.offload) / 100;
  return object;
}

Json candidate_json(const TuneAnswer& answer, const TunedConfiguration& tuned) {
  Json object = configuration_json(answer.request, tuned.configuration);
  object["layers"] = tuned.layers;
  object["step_ns"] = tuned.step_ns;
  object["mfu"] = tuned.mfu;
  object["tokens_per_second_per_device"] = tuned.tokens_per_second_per_device;
  object["peak_bytes"] = tuned.peak_bytes;
  if (!model_of(answer.request).kinds.empty())
    object["usable_bytes"] = tuned.usable_bytes ? Json(*tuned.usable_bytes) : Json(nullptr);
  object["fits"] = tuned.fits;
  object["constructed"] = tuned.constructed;
  object["estimated"] = tuned.estimated;
  if (answer.tokens) object["training_seconds"] = training_seconds(answer, tuned);
  if (const auto cost = training_cost(answer, tuned)) object["training_cost"] = *cost;
  return object;
}

Json or_null(const std::optional<std::size_t>& number) { return number ? Json(*number) : Json(nullptr); }

std::string dumped(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

std::string tune_json(const TuneAnswer& answer) {
  const TuneReport& report = answer.report;
  Json document = {{"schema_version", 1},
                   {"kind", "tune"},
                   {"space", report.space},
                   {"evaluated", report.evaluated},
                   {"pruned", {{"memory", report.pruned_by_memory}, {"time", report.pruned_by_time}}},
                   {"seconds", answer.seconds}};
  document["left_out"] = Json::array();
  for (const LeftOut& one : report.left_out) {
    document["left_out"].push_back({{"schedule", one.schedule},
                                    {"configurations", one.configurations},
                                    {"reason", one.reason},
                                    {"hangs", one.hangs}});
  }
  document["capacity_bytes"] = report.capacity ? Json(*report.capacity) : Json(nullptr);
  document["usable_bytes"] = report.usable ? Json(*report.usable) : Json(nullptr);
  document["candidates"] = Json::array();
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    document["candidates"].push_back(candidate_json(answer, report.candidates[i]));
    if (answer.accuracy) document["candidates"].back()["group"] = answer.accuracy->groups[i];
  }
  if (answer.accuracy) {
    const PairSpread& spread = answer.accuracy->spread;
    document["ratio_error"] = {
        {"deviation", spread.deviation}, {"pairs", spread.pairs}, {"jobs", spread.jobs}};
    const NearestRun& nearest = answer.accuracy->nearest;
    document["nearest_measured"] = {{"id", nearest.id},
                                    {"device", nearest.device},
                                    {"model", nearest.model},
                                    {"precision", nearest.precision},
                                    {"devices", nearest.devices},
                                    {"error", nearest.error},
                                    {"host_layer_ms", nearest.host_layer_ms},
                                    {"none", nearest.none.empty() ? Json(nullptr) : Json(nearest.none)}};
  }
  document["front"] = report.front;
  document["choices"] = Json::array();
  for (const ChoiceCost& choice : report.choices) {
    document["choices"].push_back({{"choice", choice.choice},
                                   {"value", choice.value},
                                   {"best", or_null(choice.best)},
                                   {"faster", or_null(choice.faster)}});
  }
  document["sensitivity"] = Json::array();
  for (const SensitivityRow& row : answer.sensitivity) {
    document["sensitivity"].push_back({{"figure", row.figure},
                                       {"factor", row.factor},
                                       {"best", candidate_json(answer, row.best)},
                                       {"loss", row.loss ? Json(*row.loss) : Json(nullptr)}});
  }
  if (answer.overlap) {
    document["without_tensor_overlap"] = {{"same", candidate_json(answer, answer.overlap->same)},
                                          {"best", candidate_json(answer, answer.overlap->best)}};
  }
  document["notes"] = report.notes;
  if (!answer.launch.empty()) document["launch"] = answer.launch;
  return dumped(document);
}

// All candidates have the same fields, so the first candidate's fields are the header.
std::string tune_csv(const TuneAnswer& answer) {
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& fields) {
    text += fmt::format("{}\n", fmt::join(fields, ","));
  };
  std::vector<std::string> fields;
  for (const std::size_t number : shown_configurations(answer)) {
    const Json object = candidate_json(answer, answer.report.candidates[number]);
    fields.clear();
    if (text.empty()) {
      for (const auto& [key, value] : object.items()) fields.push_back(key);
      add_line(std::exchange(fields, {}));
    }
    for (const auto& [key, value] : object.items())
      fields.push_back(csv_field(value.is_string() ? value.get<std::string>() : value.dump()));
    add_line(fields);
  }
  return text;
}

std::string space_json(const TuneRequest& request, const std::vector<Configuration>& space) {
  Json document = {{"schema_version", 1}, {"kind", "space"}, {"configurations", Json::array()}};
  for (const Configuration& of : space) document["configurations"].push_back(configuration_json(request, of));
  return dumped(document);
}

}  // namespace penstock

// Prints a plan: its configuration and periods, the stages with their layers, the best other plans (the
// front), and notes. A period is the time between two minibatches. The text names only the first and the
// last layer of a stage, because the layers between them form a chain. JSON names all layers.

#include "cli/commands/plan_output.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"
#include "sim/choose/plan_search.hpp"
#include "text/enum_words.hpp"

namespace penstock {

namespace {

using Json = nlohmann::ordered_json;

/// Returns the period of a plan as text. A plan that cannot run has an infinite period, so the value is
/// limited to 9e18 ns.
std::string period_text(double period_ns) {
  return format_duration(static_cast<Ns>(std::llround(std::min(period_ns, 9e18))));
}

/// Returns the notes on the plan. If the report has factors (the causes of the difference between the
/// predicted and the simulated period), their notes follow.
std::vector<std::string> notes_of(const PlanReport& report) {
  std::vector<std::string> notes = report.evaluation.notes;
  if (report.factors && report.explains_factors)
    notes.insert(notes.end(), report.factors->notes.begin(), report.factors->notes.end());
  return notes;
}

// --- text -----------------------------------------------------------------------------------------------

/// Returns the number and the names of a stage's layers as text, such as "17: Conv2d-2 .. MaxPool2d-18".
std::string layers_text(const PlannedStage& stage, const std::vector<std::string>& names) {
  const std::string& first = names[static_cast<std::size_t>(stage.layers.front())];
  if (stage.layers.size() == 1) return fmt::format("1: {}", first);
  return fmt::format("{}: {} .. {}", stage.layers.size(), first,
                     names[static_cast<std::size_t>(stage.layers.back())]);
}

Table stage_table(const PlanReport& report) {
  Table table{.columns = {"stage", "layers", "replicas", "in flight", "compute", "cut", "weights",
                          "held a device", "simulated peak"},
              .rows = {}};
  const std::vector<PlannedStage>& stages = report.evaluation.planned.plan.stages;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const PlannedStage& stage = stages[s];
    table.rows.push_back({count_cell(static_cast<std::int64_t>(s)),
                          text_cell(layers_text(stage, report.layers)), count_cell(std::ssize(stage.devices)),
                          count_cell(stage.in_flight), duration_cell(stage.compute_ns), bytes_cell(stage.cut),
                          bytes_cell(stage.weights), bytes_cell(stage.held),
                          bytes_cell(report.evaluation.stage_peaks[s])});
  }
  return table;
}

/// Returns a table of the plans on the front. A plan is on the front if no other plan is at least as fast,
/// as small and as cheap. `front` must not be empty. If several devices share layers (tensor parallelism),
/// the table counts ranks instead of devices.
Table front_table(const std::vector<PlanEvaluation>& front) {
  Table table{.columns = {"devices", "plan", "predicted period", "simulated period", "samples/s",
                          "peak memory", "device-hours/M samples", "cost/M samples"},
              .rows = {}};
  const bool priced = std::ranges::any_of(
      front, [](const PlanEvaluation& plan) { return plan.cost_per_million_samples().has_value(); });
  if (!priced) table.columns.pop_back();
  if (front.front().devices_per_rank() > 1) table.columns.front() = "ranks";
  for (const PlanEvaluation& plan : front) {
    const double predicted = plan.planned.plan.period_ns;
    table.rows.push_back({count_cell(plan.devices()), text_cell(plan.configuration()), period_cell(predicted),
                          period_cell(plan.simulated_period_ns), rate_cell(plan.samples_per_second()),
                          bytes_cell(plan.peak_bytes()), rate_cell(plan.device_hours_per_million_samples())});
    if (const auto cost = plan.cost_per_million_samples()) table.rows.back().push_back(rate_cell(*cost));
  }
  return table;
}

/// Returns the number of samples per second as text, if a minibatch ends every `period_ns`. For an infinite
/// period the text is "0.00000".
std::string rate_text(const PlanReport& report, double period_ns) {
  const auto samples = static_cast<double>(report.evaluation.planned.minibatch_size);
  return format_rate(samples * 1e9 / period_ns);
}

std::string simulated_text(const PlanReport& report) {
  const double simulated = report.evaluation.simulated_period_ns;
  const double predicted = report.evaluation.planned.plan.period_ns;
  return fmt::format("{} ({} samples/s), {} of the predicted one", period_text(simulated),
                     rate_text(report, simulated), format_percent(simulated / predicted));
}

/// Returns the devices of a plan as text, such as "4 devices" or "2 ranks of 4 devices each".
std::string devices_text(const PlanEvaluation& plan) {
  if (plan.devices_per_rank() == 1) return format_count(plan.devices(), "device");
  return fmt::format("{} of {} each", format_count(plan.devices(), "rank"),
                     format_count(plan.devices_per_rank(), "device"));
}

/// Returns the effort of the search as text, such as "18 plans simulated, 1 of 17 starts ruled out by a
/// bound". A start is a plan from which the search begins. If the search reached its limit of actions, the
/// text adds "; ended at 134 M actions, 12 starts left out".
std::string searched_text(const SearchedPlan& search) {
  std::string text = fmt::format("{} simulated, {} of {} starts ruled out by a bound",
                                 format_count(search.simulations, "plan"), search.pruned,
                                 search.pruned + search.left_out + std::ssize(search.candidates));
  if (search.tried_all) text += "; every plan with its devices in order";
  if (search.ran_out) {
    text += fmt::format("; ended at {:.0f} M actions, {} left out", static_cast<double>(search.actions) / 1e6,
                        format_count(search.left_out, "start"));
  }
  return text;
}

/// Returns the schedule settings that differ from the rule of 1F1B-RR. The text is empty if there are none.
std::string schedule_text(const Shape& shape) {
  std::string text;
  if (!shape.buckets.empty()) {
    text = fmt::format("gradients in {}, reduced during the backward pass",
                       format_count(shape.buckets.front(), "bucket"));
  }
  if (shape.warmup.empty()) return text;
  return fmt::format("{}{}warm-up [{}]", text, text.empty() ? "" : "; ", fmt::join(shape.warmup, ", "));
}

/// Returns a table of the ten best starts (plans from which the search begins). Plans that fit into memory
/// come first. The sort is stable, so equally good plans have the order in which they were tried.
Table candidate_table(const PlanReport& report) {
  std::vector<PlanCandidate> best = report.search->candidates;
  std::ranges::stable_sort(
      best, {}, [](const PlanCandidate& plan) { return std::tuple(!plan.fits, plan.simulated_ns); });
  constexpr std::size_t kShown = 10;
  if (best.size() > kShown) best.resize(kShown);
  Table table{.columns = {"start", "predicted period", "simulated period", "samples/s", "peak memory"},
              .rows = {}};
  for (const PlanCandidate& plan : best) {
    table.rows.push_back({text_cell(plan.name),
                          period_cell(plan.predicted_ns),
                          period_cell(plan.simulated_ns),
                          {.text = rate_text(report, plan.simulated_ns), .value = plan.simulated_ns},
                          bytes_cell(plan.peak_bytes)});
  }
  return table;
}

/// Returns a line of the plan's text with a name and a value in two columns.
std::string headline(std::string_view name, const std::string& figure) {
  return fmt::format("{:<17} {}\n", name, figure);
}

/// Returns a text that says why the predicted and the simulated period differ. An example is "transfers
/// -2.298 ms, overlap +537.500 us (--factors explains)". The text is empty if they do not differ.
std::string differences_text(const PlanReport& report) {
  if (!report.factors) return "";
  std::vector<std::string> parts;
  for (const FactorDifference& part : differing_factors(*report.factors)) {
    parts.push_back(fmt::format("{} {}{}", to_text(part.factor), part.difference_ns < 0 ? "-" : "+",
                                period_text(std::abs(part.difference_ns))));
  }
  if (parts.empty()) return "";
  return fmt::format("{}{}", fmt::join(parts, ", "), report.explains_factors ? "" : " (--factors explains)");
}

/// Returns the causes of the difference between the predicted and the simulated period as JSON, in
/// nanoseconds.
Json differences_json(const PlanReport& report) {
  Json list = Json::array();
  if (!report.factors) return list;
  for (const FactorDifference& part : differing_factors(*report.factors))
    list.push_back({{"factor", to_text(part.factor)}, {"period_ns", part.difference_ns}});
  return list;
}

std::string headlines(const PlanReport& report) {
  const PlanEvaluation& evaluation = report.evaluation;
  const PlannedScenario& planned = evaluation.planned;
  const std::string size = format_count(planned.minibatch_size, "sample");
  const std::string batch = planned.microbatches == 0
                                ? fmt::format("minibatches of {}", size)
                                : fmt::format("{} microbatch{} of {} and a flush", planned.microbatches,
                                              planned.microbatches == 1 ? "" : "es", size);
  std::string text = headline(
      "plan", fmt::format("{} on {}, {}", evaluation.configuration(), devices_text(evaluation), batch));
  text += headline("objective",
                   fmt::format("{}{}{}{}", objective_text(report),
                               report.search ? " samples/s" : " of compute and reduction",
                               report.options.form == PlanForm::straight ? ", straight pipeline" : "",
                               report.options.transfers == CutTransfers::free ? ", free cuts" : ""));
  if (report.search) text += headline("searched", searched_text(*report.search));
  if (const std::string how = schedule_text(planned.scenario.shape); !how.empty())
    text += headline("schedule", how);
  text += headline("memory limit", planned.memory_limit ? format_bytes(*planned.memory_limit) + " a device"
                                                        : std::string("none"));
  text += headline("predicted period", fmt::format("{} ({} samples/s)", period_text(planned.plan.period_ns),
                                                   rate_text(report, planned.plan.period_ns)));
  text += headline("simulated period", simulated_text(report));
  if (const std::string why = differences_text(report); !why.empty()) text += headline("they differ by", why);
  text += headline("bytes a sample",
                   fmt::format("{} (data parallel on as many devices: {})",
                               format_bytes(std::llround(evaluation.bytes_per_sample)),
                               format_bytes(std::llround(evaluation.data_parallel_bytes_per_sample))));
  return text + headline("peak memory", fmt::format("{} a device{}", format_bytes(evaluation.peak_bytes()),
                                                    evaluation.out_of_memory ? ", more than it has" : ""));
}

// --- JSON -----------------------------------------------------------------------------------------------

Json stages_json(const PlanReport& report) {
  Json list = Json::array();
  const std::vector<PlannedStage>& stages = report.evaluation.planned.plan.stages;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const PlannedStage& stage = stages[s];
    Json layers = Json::array();
    for (const std::int32_t layer : stage.layers)
      layers.push_back(report.layers[static_cast<std::size_t>(layer)]);
    list.push_back({{"stage", s},
                    {"layers", std::move(layers)},
                    {"replicas", stage.devices.size()},
                    {"devices", stage.devices},
                    {"in_flight", stage.in_flight},
                    {"compute_ns", stage.compute_ns},
                    {"cut_bytes", stage.cut},
                    {"weight_bytes", stage.weights},
                    {"held_bytes", stage.held},
                    {"simulated_peak_bytes", report.evaluation.stage_peaks[s]}});
  }
  return list;
}

/// Returns the periods, bytes and costs of one plan as JSON. The document has such an object for the chosen
/// plan and for each plan of the front.
Json figures_json(const PlanEvaluation& plan) {
  Json figures = {{"configuration", plan.configuration()},
                  {"devices", plan.devices()},
                  {"devices_per_rank", plan.devices_per_rank()},
                  {"predicted_period_ns", plan.planned.plan.period_ns},
                  {"simulated_period_ns", plan.simulated_period_ns},
                  {"samples_per_second", plan.samples_per_second()},
                  {"bytes_per_sample", plan.bytes_per_sample},
                  {"peak_bytes", plan.peak_bytes()},
                  {"out_of_memory", plan.out_of_memory},
                  {"device_hours_per_million_samples", plan.device_hours_per_million_samples()}};
  if (const auto cost = plan.cost_per_million_samples()) figures["cost_per_million_samples"] = *cost;
  return figures;
}

/// Returns the starts of the search (the plans from which it begins) as JSON. The period of a plan that
/// cannot run is null, because JSON has no infinity.
Json search_json(const SearchedPlan& search) {
  Json candidates = Json::array();
  for (const PlanCandidate& plan : search.candidates) {
    candidates.push_back(
        {{"name", plan.name},
         {"predicted_ns", plan.predicted_ns},
         {"simulated_ns", std::isfinite(plan.simulated_ns) ? Json(plan.simulated_ns) : Json(nullptr)},
         {"exact", plan.is_exact},
         {"peak_bytes", plan.peak_bytes},
         {"fits", plan.fits}});
  }
  return {{"simulations", search.simulations},  {"pruned", search.pruned},   {"actions", search.actions},
          {"left_out", search.left_out},        {"ran_out", search.ran_out}, {"tried_all", search.tried_all},
          {"candidates", std::move(candidates)}};
}

/// Returns the bandwidths that the planner used, as JSON. The first one is the bandwidth inside a server. An
/// unlimited bandwidth is null.
Json levels_json(const std::vector<BandwidthLevel>& levels) {
  Json list = Json::array();
  for (const BandwidthLevel& level : levels) {
    const bool is_limited = std::isfinite(level.bytes_per_second);
    list.push_back({{"components", level.components},
                    {"bytes_per_second", is_limited ? Json(level.bytes_per_second) : Json(nullptr)}});
  }
  return list;
}

}  // namespace

std::string_view objective_text(const PlanReport& report) {
  return report.ranking == PlanRanking::simulated ? "simulated" : to_text(report.options.objective);
}

std::string plan_to_text(const PlanReport& report, std::size_t width) {
  std::string text = headlines(report) + '\n' + table_to_text(stage_table(report), width);
  if (report.search)
    text += "\nthe best starts of the search\n" + table_to_text(candidate_table(report), width);
  if (!report.front.empty()) {
    text += "\nno other plan is at least as fast, as small and as cheap\n";
    text += table_to_text(front_table(report.front), width);
  }
  if (report.factors && report.explains_factors) text += '\n' + factors_to_text(*report.factors, width);
  if (report.regret) text += '\n' + regret_to_text(*report.regret, width);
  const std::vector<std::string> notes = notes_of(report);
  if (!notes.empty()) text += '\n';
  for (const std::string& note : notes) text += fmt::format("note: {}\n", note);
  return text;
}

std::string plan_to_json(const PlanReport& report) {
  const PlannedScenario& planned = report.evaluation.planned;
  Json document = {{"schema_version", 1}, {"kind", "plan"}, {"scenario", report.scenario}};
  document["objective"] = objective_text(report);
  document["update"] = to_text(report.options.update);
  document["straight"] = report.options.form == PlanForm::straight;
  document["cut_transfers"] = to_text(report.options.transfers);
  document["memory_limit_bytes"] = planned.memory_limit ? Json(*planned.memory_limit) : Json(nullptr);
  document["minibatch_size"] = planned.minibatch_size;
  document["levels"] = levels_json(planned.levels);
  document.update(figures_json(report.evaluation));
  document["data_parallel_bytes_per_sample"] = report.evaluation.data_parallel_bytes_per_sample;
  const Shape& shape = planned.scenario.shape;
  document["buckets"] = shape.buckets.empty() ? Json(nullptr) : Json(shape.buckets.front());
  document["warmup"] = shape.warmup.empty() ? Json(nullptr) : Json(shape.warmup);
  document["stages"] = stages_json(report);
  if (report.search) document.update(search_json(*report.search));
  document["front"] = Json::array();
  for (const PlanEvaluation& plan : report.front) document["front"].push_back(figures_json(plan));
  document["differs_by"] = differences_json(report);
  if (report.factors && report.explains_factors) document["factors"] = factors_to_json(*report.factors);
  if (report.regret) document["regret"] = regret_to_json(*report.regret);
  document["notes"] = notes_of(report);
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

// Prints the factors, which are effects on the period that the partitioner's formula ignores. The first table
// has their periods. The second table has their meanings, and the assumption for each number. The code below
// also prints the regret of plans that were made from noisy times. JSON has the exact figures.

namespace {}  // namespace

// The table has a line for each factor. It shows two periods: one with this factor alone, and one with this
// factor and all factors above it. Each period is also shown as a percentage of the predicted period.
std::string factors_to_text(const PlanFactors& factors, std::size_t width) {
  const Cell ideal = period_cell(factors.ideal_ns);  // the simulated period without any factor
  const Cell ideal_ratio = percent_cell(factors.ideal_ns / factors.recurrence_ns);
  Table periods{.columns = {"factor", "alone", "of predicted", "with those above", "of predicted"},
                .rows = {{text_cell("none"), ideal, ideal_ratio, ideal, ideal_ratio}}};
  Table meanings{.columns = {"factor", "what is simulated with it", "what the prediction assumes"},
                 .rows = {}};
  for (const FactorPeriods& row : factors.rows) {
    const Cell name = text_cell(std::string(to_text(row.factor)));
    periods.rows.push_back({name, period_cell(row.alone_ns),
                            percent_cell(row.alone_ns / factors.recurrence_ns),
                            period_cell(row.with_those_before_ns),
                            percent_cell(row.with_those_before_ns / factors.recurrence_ns)});
    const FactorMeaning words = meaning(row.factor, factors.objective);
    meanings.rows.push_back(
        {name, text_cell(std::string(words.simulated)), text_cell(std::string(words.assumed))});
  }
  const PlannedMemory& memory = factors.memory;
  return fmt::format(
      "what the prediction leaves out: the simulated period with one factor alone, and with all down to it\n"
      "{}\n{}\nmemory over time: {} on the fullest device as planned, {} simulated, which {}\n",
      table_to_text(periods, width), table_to_text(meanings, width), format_bytes(memory.planned),
      format_bytes(memory.simulated), memory.fits_simulated ? "fits" : "does not fit");
}

Json factors_to_json(const PlanFactors& factors) {
  Json rows = Json::array();
  for (const FactorPeriods& row : factors.rows) {
    rows.push_back({{"factor", to_text(row.factor)},
                    {"simulated", meaning(row.factor, factors.objective).simulated},
                    {"assumed", meaning(row.factor, factors.objective).assumed},
                    {"alone_ns", row.alone_ns},
                    {"alone_over_predicted", row.alone_ns / factors.recurrence_ns},
                    {"with_those_above_ns", row.with_those_before_ns},
                    {"with_those_above_over_predicted", row.with_those_before_ns / factors.recurrence_ns}});
  }
  return {{"predicted_period_ns", factors.recurrence_ns},
          {"ideal_period_ns", factors.ideal_ns},
          {"rows", std::move(rows)},
          {"memory",
           {{"planned_bytes", factors.memory.planned},
            {"simulated_bytes", factors.memory.simulated},
            {"fits_simulated", factors.memory.fits_simulated}}}};
}

std::string regret_to_text(const RegretReport& report, std::size_t width) {
  Table table{.columns = {"noise", "other plans", "predicted: median", "worst", "simulated: median", "worst"},
              .rows = {}};
  for (const RegretRow& row : report.rows) {
    table.rows.push_back({percent_cell(row.noise), count_cell(row.other_plans),
                          percent_cell(row.recurrence.median), percent_cell(row.recurrence.worst),
                          percent_cell(row.simulated.median), percent_cell(row.simulated.worst)});
  }
  return fmt::format(
      "regret of planning from a noisy profile: how much longer the period is than that of the plan above, "
      "both with the true times\n"
      "({}, seed {}: each layer's forward and backward time drawn evenly from that much below to that much "
      "above the true one; other plans: trials that planned something else)\n{}",
      format_count(report.noise.trials, "trial"), report.noise.seed, table_to_text(table, width));
}

Json regret_to_json(const RegretReport& report) {
  Json rows = Json::array();
  for (const RegretRow& row : report.rows) {
    rows.push_back({{"noise", row.noise},
                    {"other_plans", row.other_plans},
                    {"predicted_median", row.recurrence.median},
                    {"predicted_worst", row.recurrence.worst},
                    {"simulated_median", row.simulated.median},
                    {"simulated_worst", row.simulated.worst}});
  }
  return {{"trials", report.noise.trials}, {"seed", report.noise.seed}, {"rows", std::move(rows)}};
}

}  // namespace penstock

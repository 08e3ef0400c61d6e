#include "cli/measured/autopsy_timers.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/terminal.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/why/explanation.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/ir/action.hpp"
#include "sim/hold/megatron_timers.hpp"
#include "sim/why/explain.hpp"

namespace penstock {
namespace {

/// The timers that Megatron-LM logged, and the run that is predicted with the costs from these timers.
struct ExplainedTimers {
  MegatronTimers timers;
  std::string scenario;
  Explanation why;
};

double mean_work_ns(const MegatronTimers& timers) {
  double sum = 0;
  for (const TimedStage& stage : timers.stages) sum += static_cast<double>(stage.work_ns());
  return sum / static_cast<double>(timers.stages.size());
}

Table stages_table(const MegatronTimers& timers) {
  Table table;
  table.columns = {"stage",         "ranks",        "forward",        "backward",
                   "than the mean", "slowest rank", "than the others"};
  const double mean = mean_work_ns(timers);
  for (std::size_t i = 0; i < timers.stages.size(); ++i) {
    const TimedStage& stage = timers.stages[i];
    const double longer = mean > 0 ? static_cast<double>(stage.work_ns()) / mean - 1 : 0;
    table.rows.push_back({count_cell(static_cast<std::int64_t>(i)),
                          text_cell(fmt::format("{}..{}", stage.ranks.front(), stage.ranks.back())),
                          duration_cell(stage.forward_ns), duration_cell(stage.backward_ns),
                          Cell{.text = fmt::format("{:+.1f} %", 100 * longer), .value = longer},
                          count_cell(stage.slowest_rank),
                          Cell{.text = fmt::format("{:+.1f} %", 100 * stage.slower), .value = stage.slower}});
  }
  return table;
}

/// Returns a sentence that compares the measured time of the forward and backward passes with the predicted
/// run. It is empty if the log does not have this time.
std::string passes_text(const ExplainedTimers& found) {
  const Ns predicted = found.why.makespan_ns;
  if (!found.timers.passes_ns) return "";
  const Ns measured = *found.timers.passes_ns;
  return fmt::format(
      "forward and backward passes of an iteration took {}; with these costs and messages that take no time "
      "{} takes {}\n",
      format_duration(measured), found.why.schedule, format_duration(predicted));
}

std::string text_of(const ExplainedTimers& found, std::size_t width) {
  const MegatronTimers& timers = found.timers;
  std::string text = fmt::format(
      "timers of {}, {}, {}, {}\ntimes of one microbatch{}; timers do not say in which order "
      "actions ran\n\n{}\n",
      format_count(timers.ranks, "rank"),
      format_count(static_cast<std::int64_t>(timers.stages.size()), "stage"),
      timers.microbatches == 1 ? "1 microbatch" : fmt::format("{} microbatches", timers.microbatches),
      format_count(timers.reports, "report"), timers.chunks > 1 ? " in one chunk" : "",
      table_to_text(stages_table(timers), width));
  text += passes_text(found);
  return text + "\nthe predicted run\n" + explanation_to_text(found.why, {}, width);
}

using Json = nlohmann::ordered_json;

std::string json_of(const ExplainedTimers& found) {
  Json document = {{"schema_version", 1},
                   {"kind", "megatron-timers"},
                   {"ranks", found.timers.ranks},
                   {"microbatches", found.timers.microbatches},
                   {"virtual_stages", found.timers.chunks},
                   {"reports", found.timers.reports},
                   {"measured_ns", found.timers.passes_ns ? Json(*found.timers.passes_ns) : Json(nullptr)},
                   {"predicted_ns", found.why.makespan_ns},
                   {"stages", Json::array()}};
  for (const TimedStage& stage : found.timers.stages) {
    document["stages"].push_back({{"ranks", stage.ranks},
                                  {"forward_ns", stage.forward_ns},
                                  {"backward_ns", stage.backward_ns},
                                  {"slowest_rank", stage.slowest_rank},
                                  {"slower", stage.slower}});
  }
  document["bill"] = Json::array();
  for (const BillLine& line : found.why.bill)
    document["bill"].push_back({{"cause", line.cause}, {"idle_ns", line.idle_ns}});
  document["scenario"] = found.scenario;
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

tl::expected<ExplainedTimers, UserError> explained_timers(const TimersLog& log, const InputFlags& meant) {
  auto timers = read_megatron_timers(
      log.text, log.file,
      {.stages = meant.pp_size, .microbatches = meant.num_microbatches, .chunks = meant.virtual_stages});
  if (!timers) return bad_input(timers.error());
  const std::string usual = timers->chunks > 1 ? "interleaved" : "1f1b";
  const auto schedule = known_schedule(meant.schedule.empty() ? usual : meant.schedule);
  if (!schedule) return tl::unexpected(schedule.error());
  ExplainedTimers found{.timers = *std::move(timers), .scenario = {}, .why = {}};
  found.scenario = timers_scenario(found.timers, *schedule, log.file);
  const auto scenario = parse_scenario(found.scenario, log.file, ".");
  if (!scenario) return bad_input(scenario.error());
  const auto experiment = prepared(*scenario);
  if (!experiment) return tl::unexpected(experiment.error());
  const auto run = caused_run(*experiment);
  if (!run) return user_error(ErrorKind::check_failed, run.error().message);
  found.why = explained(*run);
  found.why.schedule = *schedule;
  return found;
}

}  // namespace

Outcome run_timers(const TimersLog& log, const InputFlags& meant, const OutputFlags& output) {
  if (auto known = check_output_files(output.files, {".yaml", ".yml", ".json", ".txt"},
                                      {{.name = "the input", .file = log.file}});
      !known)
    return tl::unexpected(known.error());
  const auto found = explained_timers(log, meant);
  if (!found) return tl::unexpected(found.error());
  const auto scenario = [&] { return found->scenario; };
  const std::vector<OutputForm> forms = {{".yaml", scenario},
                                         {".yml", scenario},
                                         {".json", [&] { return json_of(*found); }},
                                         {".txt", [&] { return text_of(*found, 0); }}};
  const auto written =
      write_answer(output, forms, output.json ? json_of(*found) : text_of(*found, table_width()));
  if (!written) return tl::unexpected(written.error());
  return ExitCode::ok;
}

}  // namespace penstock

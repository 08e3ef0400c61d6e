// penstock sweep: one scenario over many K, M and schedules.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <tl/expected.hpp>

#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/number_list.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/progress_bar.hpp"
#include "cli/sweep_summary.hpp"
#include "report/html_report.hpp"
#include "report/sweep.hpp"
#include "scenarios/batch.hpp"
#include "scenarios/scenario.hpp"
#include "sim/sweep.hpp"

namespace penstock {
namespace {

struct SweepFlags {
  InputFlags input;  // schedule, pp_size and num_microbatches stay empty: they are lists here
  ChannelFlags channels;
  OutputFlags output;
  std::string engine;
  std::vector<std::string> schedules;
  std::string pp_sizes;
  std::string microbatches;
  std::string hold;
};

const std::vector<std::string_view> kSuffixes = {".csv", ".json", ".html", ".txt"};

tl::expected<std::vector<std::int32_t>, Failure> numbers_of(std::string_view flag, const std::string& text) {
  if (text.empty()) return std::vector<std::int32_t>{};
  auto numbers = parse_number_list(text);
  if (!numbers) return bad_input(fmt::format("{} {}", flag, numbers.error()));
  return *std::move(numbers);
}

/// The scenario that every point starts from. What a point sets itself need not be there.
tl::expected<Scenario, Failure> base_scenario(const SweepFlags& flags) {
  auto scenario = scenario_with_flags(flags.input, flags.channels);
  if (!scenario) return scenario;
  if (scenario->program)
    return bad_input(fmt::format("{}: a sweep needs a scenario, got a program", flags.input.file));
  const bool complete = !scenario->schedule.empty() || !flags.schedules.empty();
  if (!complete) return bad_input("expected --schedule NAME[,NAME...]: the scenario names none");
  if (flags.input.file.empty() && flags.pp_sizes.empty()) {
    return bad_input("expected a scenario file, or --pp-size and --num-microbatches beside --schedule");
  }
  return scenario;
}

tl::expected<SweepGrid, Failure> grid_of(const SweepFlags& flags, const Scenario& scenario) {
  auto stages = numbers_of("--pp-size", flags.pp_sizes);
  if (!stages) return tl::unexpected(stages.error());
  auto microbatches = numbers_of("--num-microbatches", flags.microbatches);
  if (!microbatches) return tl::unexpected(microbatches.error());
  SweepGrid grid{.schedules = {}, .stages = *std::move(stages), .microbatches = *std::move(microbatches)};
  for (const std::string& name : flags.schedules) {
    if (auto known = known_schedule(name); !known) return tl::unexpected(known.error());
    grid.schedules.push_back(name);
  }
  grid.held = default_held_batch(scenario);
  if (!flags.hold.empty())
    grid.held = flags.hold == "global-batch" ? HeldBatch::global_batch : HeldBatch::micro_batch;
  grid.engine = engine_of(flags.engine);
  return grid;
}

/// Makes the size that is held a given one, where it only follows from the other two.
tl::expected<Scenario, Failure> with_held_size(Scenario scenario, HeldBatch held) {
  Batch& batch = scenario.batch;
  if (held == HeldBatch::global_batch && !batch.global_batch_size) {
    if (!batch.microbatches)
      return bad_input("--hold global-batch: expected --global-batch-size, or one in the scenario");
    batch.global_batch_size = batch.micro_batch_size.value_or(1) * *batch.microbatches;
  }
  if (held == HeldBatch::micro_batch && !batch.micro_batch_size && batch.global_batch_size) {
    if (!batch.microbatches || *batch.global_batch_size % *batch.microbatches != 0) {
      return bad_input("--hold micro-batch: expected --micro-batch-size, or one in the scenario");
    }
    batch.micro_batch_size = *batch.global_batch_size / *batch.microbatches;
  }
  return scenario;
}

Sweep run_points(const Scenario& scenario, SweepGrid grid, const OutputFlags& output) {
  const bool draw = !output.quiet && stderr_is_terminal();
  ProgressBar bar(draw ? ProgressDisplay::on : ProgressDisplay::off);
  grid.progress = [&bar](std::size_t done, std::size_t total) { bar.show(done, total); };
  return sweep(scenario, grid);
}

Outcome run_sweep(const SweepFlags& flags) {
  if (auto known = check_output_files(flags.output.files, kSuffixes); !known)
    return tl::unexpected(known.error());
  const auto base = base_scenario(flags);
  if (!base) return tl::unexpected(base.error());
  auto grid = grid_of(flags, *base);
  if (!grid) return tl::unexpected(grid.error());
  const auto scenario = with_held_size(*base, grid->held);
  if (!scenario) return tl::unexpected(scenario.error());
  const Sweep swept = run_points(*scenario, *std::move(grid), flags.output);
  const std::vector<OutputForm> forms = {{".csv", [&] { return sweep_csv(swept); }},
                                         {".json", [&] { return sweep_json(swept); }},
                                         {".html", [&] { return sweep_to_html(swept); }},
                                         {".txt", [&] { return sweep_table(swept); }}};
  const std::string text = flags.output.json ? sweep_json(swept) : sweep_summary(swept, flags.output.files);
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

}  // namespace

Command sweep_command(CLI::App& root) {
  CLI::App* app = root.add_subcommand("sweep", "Predict many schedules, K and M, and rank them.");
  const auto flags = std::make_shared<SweepFlags>();
  add_input_file(*app, flags->input.file);
  const std::string group = "Grid (lists: 4 | 1,2,3 | 1..16 | 1,2,4..128; default: the scenario's own value)";
  app->add_option("--schedule", flags->schedules, "names of schedules, with commas between them")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group)
      ->type_name("NAMES");
  app->add_option("--pp-size", flags->pp_sizes, "K, ranks of the pipeline")
      ->group(group)
      ->type_name("NUMBERS");
  app->add_option("--num-microbatches", flags->microbatches, "M, microbatches of one minibatch")
      ->group(group)
      ->type_name("NUMBERS");
  add_choice(*app, "--hold", flags->hold,
             {.words = {"global-batch", "micro-batch"},
              .help = "the size that stays while M changes: global-batch or micro-batch (default: the global "
                      "batch where one "
                      "is given)",
              .group = group,
              .type_name = "SIZE"});
  add_batch_flags(*app, flags->input);
  add_channel_flags(*app, flags->channels);
  add_engine_flag(*app, flags->engine);
  add_output_flags(*app, flags->output, ".csv .json .html .txt");
  app->footer(
      "Examples:\n"
      "  penstock sweep --schedule gpipe,1f1b,zb-h1 --pp-size 4,8 --num-microbatches 1,2,4..64\n"
      "  penstock sweep scenarios/library/gpipe-transformer-k4.yaml --num-microbatches 1,2,4..32 -o k4.csv "
      "-o k4.html");
  return {app, [flags] { return run_sweep(*flags); }};
}

}  // namespace penstock

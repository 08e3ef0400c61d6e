// penstock tune: finds the configuration that trains a model fastest on a cluster. It chooses parallel
// degrees, stages, schedule, microbatch and recomputation, and shows the cost of each choice.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/commands/tune_answer.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "report/result/result.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/launchers.hpp"
#include "sim/choose/tune.hpp"
#include "sim/choose/tune_questions.hpp"
#include "sim/choose/tuning_space.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/why/explain.hpp"

namespace penstock {
namespace {

const std::vector<std::string_view> kTuneFiles = {".json", ".csv", ".html", ".txt", ".yaml", ".sh"};
const std::vector<std::string_view> kSpaceFiles = {".json", ".txt"};

/// Returns a comment line for shell and YAML files which says that the configuration does not fit into
/// memory. The line is empty if the configuration fits.
std::string misfit_comment(const TuneAnswer& answer) {
  const TunedConfiguration& best = answer.report.candidates.front();
  if (best.fits) return {};
  return fmt::format("# {}: nothing fits in memory, and this is the fastest\n", missing_text(answer, best));
}

/// Returns the scenario of the best configuration: the user's scenario with the overrides of --set and with
/// the chosen values.
tl::expected<std::string, std::string> best_scenario(const TuneFlags& flags, const TuneAnswer& answer) {
  const InputFlags input = base_input(flags);
  auto overrides = scenario_overrides(input);
  if (!overrides) return tl::unexpected(overrides.error().message);
  const TunedConfiguration& best = answer.report.candidates.front();
  const TuneRequest request = with_layers(answer.request, best.configuration, best.layers);
  for (Override& change : overrides_of(request, best.configuration)) overrides->push_back(std::move(change));
  return edited_scenario(input.file, *overrides).map([&](const std::string& text) {
    return misfit_comment(answer) + text;
  });
}

/// Returns comments for a shell script about the overlap of tensor collectives: the step with and without it,
/// and the best configuration without it. Returns an empty text if the best configuration has no such
/// overlap.
std::string overlap_comments(const TuneAnswer& answer) {
  if (!answer.overlap) return {};
  const TunedConfiguration& best = answer.report.candidates.front();
  const auto& [same, other] = *answer.overlap;
  const std::string lead = fmt::format("# with tensor overlap {:.3f} s, without {:.3f} s; ",
                                       step_seconds(best), step_seconds(same));
  if (!other.fits) return lead + "nothing fits without it\n";
  if (other.configuration == same.configuration) return lead + "this is the best plan without it, too\n";
  return lead + fmt::format("best plan without it: {}, {:.3f} s\n", configuration_text(answer.request, other),
                            step_seconds(other));
}

/// Returns the arguments of a launcher for the best configuration, with comments above them. `penstock
/// import` reads them.
std::string launch_text(const TuneAnswer& answer, Launcher launcher) {
  const TunedConfiguration& best = answer.report.candidates.front();
  // Launchers cannot balance layers by their cost, so balanced layers are written as a list.
  const TuneRequest request = with_layers(answer.request, best.configuration, best.layers);
  return fmt::format("{}{}{}", misfit_comment(answer), overlap_comments(answer),
                     launch_arguments(launcher, request, best.configuration));
}

/// Returns the command of the launcher that --emit names. Without --emit, it is that of the first launcher
/// that can run the best configuration as predicted, or a text that says why none can.
std::string page_launch_text(const TuneAnswer& answer) {
  if (!answer.launch.empty()) return answer.launch;
  const TunedConfiguration& best = answer.report.candidates.front();
  const TuneRequest request = with_layers(answer.request, best.configuration, best.layers);
  Workload work = model_of(request).work;
  work.parallel.gather = request.base.shape.gather;
  set_choices(work, best.configuration);
  choose_devices(work, request, best.configuration);
  std::string text = "no launcher runs the best configuration as it is priced; --emit searches for one\n";
  for (const auto& [launcher, name] : kEnumWords<Launcher>) {
    const std::string lacks =
        beyond_launcher(launcher, {.request = request, .of = best.configuration, .work = work});
    if (lacks.empty()) return fmt::format("{}\n{}", name, launch_text(answer, launcher));
    text += fmt::format("{}: {}\n", name, lacks);
  }
  return text;
}

/// Returns the parts of the page that need further predictions.
TunePage page_of(const TuneAnswer& answer) {
  TunePage page{.launch = page_launch_text(answer)};
  const auto& candidates = answer.report.candidates;
  for (std::size_t number = 0; number < std::min<std::size_t>(2, candidates.size()); ++number) {
    const TunedConfiguration& tuned = candidates[number];
    const TuneRequest request = with_layers(answer.request, tuned.configuration, tuned.layers);
    const auto bill = bill_of_scenario(scenario_of(request, tuned.configuration));
    if (bill) page.bills.push_back({fmt::format("#{} {}", number + 1, tuned.configuration.schedule), *bill});
  }
  return page;
}

/// Returns an error if a .sh file is wanted for the arguments of a launcher, and no launcher is named.
tl::expected<void, UserError> require_launcher(const TuneFlags& flags) {
  const auto is_script = [](const std::string& file) { return has_suffix(file, ".sh"); };
  const auto script = std::ranges::find_if(flags.output.files, is_script);
  if (script == flags.output.files.end() || !flags.emit.empty()) return {};
  return bad_input(fmt::format(
      "-o {}: a .sh file has the arguments of a launcher: add --emit megatron or --emit torchtitan",
      *script));
}

// The keys of a scenario that the search chooses, each with the flag that lists the values to try.
constexpr auto kSearchedKeys = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"schedule.name", "--schedule"},
    {"schedule.stages", "--pp-size"},
    {"schedule.virtual_stages", "--virtual-stages"},
    {"schedule.sharding", "--sharding"},
    {"schedule.offload", "--offload"},
    {"schedule.layer_split", "--layer-split"},
    {"parallel.tensor", "--tensor-parallel"},
    {"parallel.context", "--context-parallel"},
    {"parallel.context_exchange", "--context-exchange"},
    {"parallel.expert", "--expert-parallel"},
    {"parallel.data", "--data-parallel"},
    {"parallel.order", "--order"},
    {"cluster.group_order", "--group-order"},
    {"training.micro_batch_size", "--micro-batch-size"},
    {"training.recompute", "--recompute"},
});

/// Returns an error if --set states a key that the search chooses, because the search would not keep the
/// value.
tl::expected<void, UserError> refuse_searched_keys(const InputFlags& input) {
  for (const std::string& setting : input.settings) {
    const auto at = setting.find('=');
    const std::string key = setting.substr(0, at);
    const auto row =
        std::ranges::find(kSearchedKeys, key, &std::pair<std::string_view, std::string_view>::first);
    if (row == kSearchedKeys.end() || at == std::string::npos) continue;
    return bad_input(fmt::format("--set {}: tune chooses this key; write {} {} to try this value alone", key,
                                 row->second, setting.substr(at + 1)));
  }
  return {};
}

/// Prints all configurations of the search space for the flag --list. It computes no times.
Outcome list_space(const TuneFlags& flags, const TuneRequest& request) {
  const auto space = tuning_space(request);
  if (!space) return bad_input(space.error());
  const std::vector<OutputForm> forms = {{".json", [&] { return space_json(request, *space); }},
                                         {".txt", [&] { return space_text(request, *space); }}};
  const std::string text = flags.output.json ? space_json(request, *space) : space_text(request, *space);
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

/// Returns a note that compares the best configuration with the unchanged scenario of the user. It is empty
/// if this scenario cannot be simulated, for example because it states only a model and a device.
std::string present_note(const TuneFlags& flags, const TunedConfiguration& best) {
  if (flags.input.file.empty()) return {};
  const auto scenario = scenario_of(flags.input, {});
  if (!scenario) return {};
  SimulateOptions options;
  options.steady = SteadyState::skip;
  options.digest = ProgramDigest::skip;
  const auto result = simulate_scenario(*scenario, options);
  if (!result || result->makespan_ns <= 0) return {};
  const double present = static_cast<double>(result->makespan_ns) / 1e9 / scenario->shape.iterations;
  const double less = 1 - step_seconds(best) / present;
  return fmt::format(
      "a step of the scenario as it stands takes {:.4f} s{}; the best of the search takes {:.1f} % {}",
      present, any_out_of_memory(*result) ? " and does not fit in memory" : "", 100 * std::abs(less),
      less >= 0 ? "less" : "more");
}

/// Searches for the best configuration, and computes the further parts of the answer. After an interrupt,
/// the answer has the best configuration so far, and a note says what is missing. Returns an error if no
/// configuration was timed.
tl::expected<TuneAnswer, UserError> answer_of(const TuneFlags& flags, TuneRequest request,
                                              const InterruptNoted& interrupt) {
  ProgressBar bar(display_for(flags.output));
  TuneOptions options;
  options.top = static_cast<std::size_t>(flags.top);
  options.prune = !flags.exhaustive;
  options.progress = [&](std::size_t done, std::size_t all) { bar.show(done, all); };
  options.stopped = [&interrupt] { return interrupt.came(); };
  const auto begin = std::chrono::steady_clock::now();
  auto report = tune(request, options);
  if (!report) return tl::unexpected(report.error());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (auto note = present_note(flags, report->candidates.front()); !note.empty())
    report->notes.push_back(std::move(note));
  TuneAnswer answer{.request = std::move(request),
                    .report = *std::move(report),
                    .top = static_cast<std::size_t>(flags.top),
                    .seconds = seconds.count(),
                    .tokens = flags.tokens};
  const auto note_interrupt = [&answer](std::string_view before) {
    answer.report.notes.push_back(fmt::format("interrupted: before {}", before));
  };
  // The lambdas copy their data, because abandoned work may continue after this function returns.
  answer.accuracy = done_unless(options.stopped, [request = answer.request, report = answer.report] {
    return accuracy_groups(request, report);
  });
  if (!answer.accuracy) note_interrupt("it was known which candidates are as good as the best");
  if (answer.request.launcher) {
    auto overlap =
        done_unless(options.stopped, [request = answer.request, best = answer.report.candidates.front()] {
          return tensor_overlap_worth(request, best);
        });
    if (!overlap) {
      note_interrupt("it was known what the overlap of tensor collectives is worth");
      return answer;
    }
    if (!*overlap) return bad_input(overlap->error());
    answer.overlap = **std::move(overlap);
  }
  if (flags.sensitivity) {
    auto rows =
        done_unless(options.stopped, [request = answer.request, best = answer.report.candidates.front()] {
          return sensitivity(request, best);
        });
    if (!rows) {
      note_interrupt("other machines were looked at");
      return answer;
    }
    if (!*rows) return bad_input(rows->error());
    answer.sensitivity = **std::move(rows);
  }
  return answer;
}

Outcome run_tune(const TuneFlags& flags) {
  if (auto known = check_output_files(flags.output.files, flags.list ? kSpaceFiles : kTuneFiles,
                                      inputs_of(flags.input));
      !known)
    return tl::unexpected(known.error());
  if (auto launcher = require_launcher(flags); !launcher) return tl::unexpected(launcher.error());
  if (auto kept = refuse_searched_keys(flags.input); !kept) return tl::unexpected(kept.error());
  auto request = request_of(flags);
  if (!request) return tl::unexpected(request.error());
  if (flags.list) return list_space(flags, *request);
  InterruptNoted interrupt;
  auto answer = answer_of(flags, *std::move(request), interrupt);
  if (!answer) {
    if (interrupt.came()) write_stderr(fmt::format("penstock: {}", answer.error().message));
    interrupt.end_if_it_came();
    return tl::unexpected(answer.error());
  }
  // The script has the arguments of the launcher that --emit names. It is empty without the flag.
  std::string script;
  if (answer->request.launcher) {
    script = launch_text(*answer, *answer->request.launcher);
    answer->launch = fmt::format("{}\n{}", to_text(*answer->request.launcher), script);
  }
  const std::vector<OutputForm> forms = {{".json", [&] { return tune_json(*answer); }},
                                         {".csv", [&] { return tune_csv(*answer); }},
                                         {".html", [&] { return tune_html(*answer, page_of(*answer)); }},
                                         {".txt", [&] { return tune_text(*answer, 0, TuneTables::all); }},
                                         {".yaml", [&] { return best_scenario(flags, *answer); }},
                                         {".sh", [&] { return script; }}};
  const TuneTables tables = flags.details ? TuneTables::all : TuneTables::fastest;
  const std::string text = flags.output.json ? tune_json(*answer) : tune_text(*answer, table_width(), tables);
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  interrupt.end_if_it_came();  // all output is written at this point
  return ExitCode::ok;
}

}  // namespace

Command tune_command(CLI::App& root) {
  Subcommand app(root, "tune",
                 "Find the degrees, schedule and batches that train a model fastest on a cluster.");
  const auto flags = std::make_shared<TuneFlags>();
  add_tune_flags(app, *flags);
  app.footer(
      "Examples:\n"
      "  penstock tune --model llama-3.1-8b --device h100-sxm --sequence 8192 "
      "--global-batch-size 128\n"
      "  penstock tune --model llama-3.1-70b --device h100-sxm --nodes 8 "
      "--sequence 8192 --global-batch-size 256 --schedule 1f1b,interleaved --emit megatron -o launch.sh\n"
      "  penstock tune scenarios/library/llama-70b-h100.yaml --memory-limit 72GiB -o best.yaml -o tune.html");
  return {app, [flags] { return run_tune(*flags); }};
}

}  // namespace penstock

// penstock calibrate --from-log: learns the constants of a device from logs of training runs.
//
//   logs --logged_run()--> rows of CSV --price_runs()--> priced rows --predict_runs()--> fitted constants
//
// The rows are written as a file for `penstock runs`, and the constants as parts of a scenario.

#include "cli/measured/calibrate_logs.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/measured/runs_command.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "report/print/table.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "sim/hold/training_log.hpp"

namespace penstock {

namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string_view> kLogFiles = {".csv", ".yaml", ".yml", ".json", ".txt"};

/// The runs that logs describe. They are predicted twice: with the built-in constants of the device, and
/// with fitted ones.
struct LogCalibration {
  std::vector<LoggedRun> logged;
  MeasuredRuns runs{};
  RunsReport own{};     ///< predictions with the device's own constants
  RunsReport fitted{};  ///< predictions with constants that were fitted to the logs
  std::vector<LeftOutError> left_out{};
};

/// Returns the file of the model, or its name in the library. --model names it, or else the key
/// model.huggingface of the scenario.
tl::expected<std::filesystem::path, UserError> model_file(const InputFlags& input) {
  if (!input.model.model.empty()) return std::filesystem::path(input.model.model);
  const auto text = read_text_file(input.file, input.file);
  if (!text) return bad_input(text.error());
  const std::filesystem::path directory = std::filesystem::path(input.file).parent_path();
  const auto document = parse_document(
      *text,
      std::make_shared<const Source>(Source{.name = input.file, .directory = directory, .override_key = ""}));
  const Node* model = document ? document->find("model") : nullptr;
  const Node* file = model == nullptr ? nullptr : model->find("huggingface");
  if (file != nullptr && file->kind == Node::Kind::scalar) {
    const std::filesystem::path path = directory / file->text;
    return is_library_config(path, file->text) ? std::filesystem::path(file->text) : path;
  }
  return bad_input(
      fmt::format("{}: expected model.huggingface, which names a config.json, for a row of measured runs; "
                  "--model FILE names one, too",
                  input.file));
}

/// Returns true if the text is a scenario, and false if it is a configuration of a framework. NeMo's
/// configurations also have a key `model`, so this key is not enough.
bool is_scenario(std::string_view text, const std::string& file) {
  const auto document = parse_document(
      text, std::make_shared<const Source>(Source{.name = file, .directory = {}, .override_key = ""}));
  return document && (document->find("cluster") != nullptr || document->find("schedule") != nullptr ||
                      document->find("parallel") != nullptr);
}

/// Returns the values (cells of a row of measured runs) that the flags state. If the flags name a scenario,
/// it gives the values, too.
tl::expected<RunCells, UserError> cells_of_flags(const InputFlags& input) {
  // Without a model there is no scenario with costs, so only the device is read from the flags.
  if (input.file.empty() && input.model.model.empty()) {
    RunCells cells;
    if (!input.model.device.empty()) cells["device"] = input.model.device;
    return cells;
  }
  const auto scenario = scenario_of(input, {});
  if (!scenario) return tl::unexpected(scenario.error());
  if (!std::holds_alternative<DeviceModel>(scenario->model)) {
    return bad_input(fmt::format(
        "{}: expected a model on named devices (cluster.device), which has constants", input.file));
  }
  const auto model = model_file(input);
  if (!model) return tl::unexpected(model.error());
  return cells_of(*scenario, *model);
}

/// Returns the values (cells of a row of measured runs) that --config and the flags state. `config` is
/// empty if there is no --config.
tl::expected<RunCells, UserError> stated_cells(const TrainingLog& log, const std::string& config,
                                               InputFlags input) {
  // torchtitan's logs name the GPU, which a scenario of flags needs.
  const auto named = log.arguments.find("device");
  if (input.model.device.empty() && config.empty() && named != log.arguments.end()) {
    if (const auto device = described_device(named->second)) input.model.device = device->type.name;
  }
  if (config.empty()) return cells_of_flags(input);
  const auto text = read_text_file(config, config);
  if (!text) return bad_input(text.error());
  if (is_scenario(*text, config)) {
    input.file = config;
    return cells_of_flags(input);
  }
  auto cells = cells_of_flags(input);
  if (!cells) return cells;
  // Flags have priority: merge() keeps the values that `cells` already has.
  const TrainingArguments arguments = arguments_of(*text);
  if (arguments.empty()) {
    return bad_input(fmt::format(
        "{}: expected a scenario (cluster, parallel, schedule), or arguments of Megatron-LM, NeMo or "
        "torchtitan such as seq_length, found neither",
        config));
  }
  cells->merge(cells_of(arguments, log.format));
  return cells;
}

/// Reads all logs and their configurations. The number of configurations must be the number of logs, or 1
/// or 0.
tl::expected<std::vector<LoggedRun>, UserError> read_logs(const LogFlags& flags, const InputFlags& input) {
  std::vector<LoggedRun> logged;
  for (std::size_t i = 0; i < flags.logs.size(); ++i) {
    const auto log = read_training_log(flags.logs[i]);
    if (!log) return bad_input(log.error());
    const std::string config = flags.configs.empty() ? "" : flags.configs[flags.configs.size() == 1 ? 0 : i];
    const auto stated = stated_cells(*log, config, input);
    if (!stated) return tl::unexpected(stated.error());
    auto run = logged_run(*log, *stated);
    if (!run) return bad_input(run.error());
    logged.push_back(*std::move(run));
  }
  return logged;
}

/// Returns the usual scatter of log(predicted / measured) after a fit of constants. It is computed from the
/// runs in the library, each predicted with constants from the other runs of its site.
tl::expected<double, std::string> usual_scatter() {
  const MeasuredRuns library = library_runs();
  const auto priced = price_runs(library);
  if (!priced) return tl::unexpected(priced.error());
  double squares = 0;
  double count = 0;
  for (const LeftOutError& one : left_out_errors(*priced)) {
    if (one.rows == 0) continue;
    squares += one.log_error * one.log_error;
    ++count;
  }
  return std::sqrt(squares / count);
}

tl::expected<LogCalibration, UserError> calibrated(std::vector<LoggedRun> logged) {
  LogCalibration answer{.logged = std::move(logged)};
  const auto text_of = [](const std::string& model) { return read_config_text(model, model); };
  auto runs = parse_measured_runs(logged_runs_csv(answer.logged, "."), "the logs' row", text_of);
  if (!runs) return bad_input(runs.error());
  if (!runs->left_out.empty()) return bad_input("the logs' row:" + runs->left_out.front().why);
  const auto priced = price_runs(*runs);
  if (!priced) return bad_input(priced.error());
  const auto scatter = usual_scatter();
  if (!scatter) return bad_input(scatter.error());
  answer.own = predict_runs(*priced, nullptr);
  answer.fitted = predict_runs(*priced, &*priced, *scatter);
  answer.left_out = left_out_errors(*priced);
  answer.runs = *std::move(runs);
  return answer;
}

// --- text -------------------------------------------------------------------------------------------------

Cell seconds_cell(double seconds) { return {fmt::format("{:.4f}", seconds), seconds}; }
Cell error_cell_of(double part) { return {fmt::format("{:+.2f} %", 100 * part), part}; }

Table logs_table(const LogCalibration& answer) {
  Table table;
  table.columns = {"log",           "steps",       "dropped", "step s", "a tenth below",
                   "a tenth above", "predicted s", "error",   "fitted", "left out"};
  for (std::size_t i = 0; i < answer.logged.size(); ++i) {
    const StepTimes& times = answer.logged[i].times;
    const LeftOutError& left_out = answer.left_out[i];
    const double error = std::expm1(left_out.log_error);
    table.rows.push_back({text_cell(answer.runs.runs[i].id), count_cell(times.steps),
                          count_cell(times.dropped), seconds_cell(times.median), seconds_cell(times.low),
                          seconds_cell(times.high), seconds_cell(answer.own.rows[i].predicted_seconds),
                          error_cell_of(answer.own.rows[i].error), error_cell_of(answer.fitted.rows[i].error),
                          left_out.rows > 0 ? error_cell_of(error) : Cell{"", std::nullopt}});
  }
  return table;
}

Table intervals_table(const LogCalibration& answer) {
  Table table;
  table.columns = {"framework", "device", "precision", "constant", "value", "from", "to", "rows"};
  table.keys = 4;
  for (const GroupConstants& group : answer.fitted.constants) {
    for (const ConstantInterval& one : group.intervals) {
      table.rows.push_back(
          {text_cell(std::string(to_text(group.framework))), text_cell(group.device),
           text_cell(group.precision), text_cell(one.name), Cell{fmt::format("{:.4f}", one.value), one.value},
           Cell{fmt::format("{:.4f}", one.low), one.low}, Cell{fmt::format("{:.4f}", one.high), one.high},
           count_cell(static_cast<std::int64_t>(group.rows))});
    }
  }
  return table;
}

/// Returns true if a fitted constant stopped at a bound of the fit.
bool has_stopped(const GroupConstants& group, const std::string& constant) {
  return std::ranges::find(group.stopped, constant) != group.stopped.end();
}

/// Returns a note for each constant that stopped at a bound of the fit.
std::vector<std::string> bound_notes(const LogCalibration& answer) {
  std::vector<std::string> notes;
  for (const GroupConstants& group : answer.fitted.constants) {
    for (const ConstantInterval& one : group.intervals) {
      if (!has_stopped(group, one.name)) continue;
      notes.push_back(fmt::format(
          "{} of {} on {} in {} stopped at {:.4g}, the bound of the fit; these steps have a cost that "
          "no constant describes, so check what the logs do not state (recomputation, overlap, the device)",
          one.name, to_text(group.framework), group.device, group.precision, one.value));
    }
  }
  return notes;
}

/// Returns the errors of those runs that can be predicted with constants fitted to other runs. Returns
/// nothing if there is no such run.
std::optional<RunGroup> left_out_group(const LogCalibration& answer) {
  GroupErrors errors;
  for (const LeftOutError& one : answer.left_out) {
    if (one.rows > 0) errors.add(std::expm1(one.log_error));
  }
  if (errors.empty()) return std::nullopt;
  return errors.named("left out");
}

std::string left_out_text(const LogCalibration& answer) {
  const auto group = left_out_group(answer);
  if (!group) {
    return "leave-one-out error: none; it takes logs of two configurations of one framework, device and "
           "precision\n";
  }
  return fmt::format(
      "leave-one-out error: {:.2f} % on average over {} rows, bias {:+.2f} %, worst {:+.2f} %\n",
      100 * group->mape, group->rows, 100 * group->bias, 100 * group->worst);
}

std::string calibration_text(const LogCalibration& answer, std::size_t width) {
  std::string text = table_to_text(logs_table(answer), width);
  text +=
      "\nThe median of the steps counts. \"error\" has the device's own constants, \"fitted\" those below, "
      "and "
      "\"left out\"\nthose of the other logs.\n\n";
  const Table intervals = intervals_table(answer);
  if (intervals.rows.empty()) {
    text += "No constant can be fitted: no step depends on one.\n\n";
  } else {
    text += table_to_text(intervals, width) +
            "\nIntervals have a probability of 95 %. Constants that are not listed keep the device's value, "
            "because these logs\ncannot tell them from the listed ones.\n\n";
  }
  return text + left_out_text(answer);
}

// --- files ------------------------------------------------------------------------------------------------

std::string calibration_json(const LogCalibration& answer) {
  Json document = {{"schema_version", 1}, {"kind", "calibration-from-logs"}, {"logs", Json::array()}};
  for (std::size_t i = 0; i < answer.logged.size(); ++i) {
    const StepTimes& times = answer.logged[i].times;
    const LeftOutError& left_out = answer.left_out[i];
    document["logs"].push_back(
        {{"id", answer.runs.runs[i].id},
         {"steps", times.steps},
         {"dropped", times.dropped},
         {"step_seconds", times.median},
         {"step_low", times.low},
         {"step_high", times.high},
         {"predicted_seconds", answer.own.rows[i].predicted_seconds},
         {"error", answer.own.rows[i].error},
         {"fitted_error", answer.fitted.rows[i].error},
         {"left_out_error", left_out.rows > 0 ? Json(std::expm1(left_out.log_error)) : Json(nullptr)}});
  }
  document["constants"] = Json::array();
  for (const GroupConstants& group : answer.fitted.constants) {
    for (const ConstantInterval& one : group.intervals) {
      document["constants"].push_back({{"framework", to_text(group.framework)},
                                       {"device", group.device},
                                       {"precision", group.precision},
                                       {"name", one.name},
                                       {"value", one.value},
                                       {"low", one.low},
                                       {"high", one.high},
                                       {"stopped", has_stopped(group, one.name)},
                                       {"rows", group.rows}});
    }
  }
  const auto group = left_out_group(answer);
  document["left_out"] = group ? group_json(*group) : Json(nullptr);
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

/// Returns the fitted constants as parts of a scenario. Returns an error if they belong to several
/// frameworks, devices or precisions.
tl::expected<std::string, std::string> constants_yaml(const LogCalibration& answer) {
  const std::vector<GroupConstants>& groups = answer.fitted.constants;
  // Rows with experts have the constants of rows without experts, and one more.
  const GroupConstants& last = groups.back();
  for (const GroupConstants& group : groups) {
    if (group.framework != last.framework || group.device != last.device ||
        group.precision != last.precision) {
      return tl::unexpected(fmt::format(
          "expected logs of one framework, device and precision, since a scenario has one of each, got {} {} "
          "{} and {} {} {}; calibrate them apart",
          to_text(group.framework), group.device, group.precision, to_text(last.framework), last.device,
          last.precision));
    }
  }
  std::string text = fmt::format(
      "# Fitted to logs ({} in {}). `penstock simulate SCENARIO --set cluster=THIS_FILE --nodes N` uses "
      "them.\n"
      "cluster:\n  device: {}\n  sustained: {:.4f}\n  collectives: {:.4f}\n  step_fraction: {:.4f}\n",
      answer.logged.size(), last.precision, last.device, last.constants.sustained, last.constants.collectives,
      last.constants.step_fraction);
  std::string training;
  for (const ConstantInterval& one : last.intervals) {
    if (one.name == "expert_factor") training += fmt::format("  expert_factor: {:.4f}\n", one.value);
    if (one.name == "action_overhead" || one.name == "step_overhead")
      training += fmt::format("  {}: {:.4f} ms\n", one.name, one.value);
  }
  return training.empty() ? text : text + "training:\n" + training;
}

/// Returns the folder of the first CSV file of -o. Names of models in the rows are relative to this folder.
std::filesystem::path directory_of_rows(const OutputFlags& output) {
  for (const std::string& file : output.files) {
    if (has_suffix(file, ".csv")) return std::filesystem::path(file).parent_path();
  }
  return {};
}

}  // namespace

void add_log_flags(Subcommand app, LogFlags& flags) {
  const std::string group = "Logs";
  app.add_option(
         "--from-log", flags.logs,
         "measure nothing: fit the constants of a named device to the steps in this log of Megatron-LM, "
         "NeMo, torchtitan or MLPerf, or - for standard input; may be repeated")
      .one_value_each()
      .group(group)
      .type_name("FILE");
  app.add_option("--config", flags.configs,
                 "with --from-log: what the log does not say, as a scenario or as arguments of the framework "
                 "(a script, YAML or TOML); one for all logs, or one for each in their order")
      .one_value_each()
      .group(group)
      .type_name("FILE");
}

std::vector<FileArgument> inputs_of(const LogFlags& logs, const InputFlags& input) {
  std::vector<FileArgument> inputs = inputs_of(input);
  for (const std::string& file : logs.logs) inputs.push_back({"--from-log", file});
  for (const std::string& file : logs.configs) inputs.push_back({"--config", file});
  return inputs;
}

Outcome calibrate_from_logs(const LogFlags& logs, const InputFlags& input, const OutputFlags& output) {
  if (auto known = check_output_files(output.files, kLogFiles, inputs_of(logs, input)); !known)
    return tl::unexpected(known.error());
  if (!input.file.empty()) {
    return bad_input(
        fmt::format("--from-log: the scenario of a log is named by --config: --config {}", input.file));
  }
  if (logs.configs.size() > 1 && logs.configs.size() != logs.logs.size()) {
    return bad_input(fmt::format("--config: expected one for all logs or one for each of {}, got {}",
                                 logs.logs.size(), logs.configs.size()));
  }
  auto logged = read_logs(logs, input);
  if (!logged) return tl::unexpected(logged.error());
  const auto answer = calibrated(*std::move(logged));
  if (!answer) return tl::unexpected(answer.error());
  for (const LoggedRun& run : answer->logged) write_notes(run.notes, output);
  write_notes(bound_notes(*answer), output);
  const auto yaml = [&] { return constants_yaml(*answer); };
  const std::vector<OutputForm> forms = {
      {".csv", [&] { return logged_runs_csv(answer->logged, directory_of_rows(output)); }},
      {".yaml", yaml},
      {".yml", yaml},
      {".json", [&] { return calibration_json(*answer); }},
      {".txt", [&] { return calibration_text(*answer, 0); }}};
  const std::string text = output.json ? calibration_json(*answer) : calibration_text(*answer, table_width());
  if (auto written = write_answer(output, forms, text); !written) return tl::unexpected(written.error());
  return ExitCode::ok;
}

}  // namespace penstock

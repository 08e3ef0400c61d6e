#pragma once
// Reads the log of a training run: the times of its steps, and the arguments that the framework prints.

#include <cstdint>
#include <filesystem>
#include <istream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/read/scenario.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The program that wrote a training log.
enum class LogFormat : std::uint8_t { megatron, nemo, torchtitan, mlperf };
template <>
inline constexpr auto kEnumWords<LogFormat> =
    std::to_array<EnumWord<LogFormat>>({{LogFormat::megatron, "megatron"},
                                        {LogFormat::nemo, "nemo"},
                                        {LogFormat::torchtitan, "torchtitan"},
                                        {LogFormat::mlperf, "mlperf"}});

/// One line of a log that states step times. It covers the steps after the previous such line, up to its
/// own step.
struct LoggedSteps {
  /// The number of the last step that the line covers. MLPerf counts samples, or tokens for GPT-3, instead
  /// of steps.
  std::int64_t last = 0;
  /// The time of a step in seconds, or a rate above 0. torchtitan states tokens per second and device.
  /// MLPerf states samples or tokens per second, depending on what it counts.
  double figure = 0;
};

/// The arguments of a training run, by their names in Megatron-LM, such as "tensor_model_parallel_size".
using TrainingArguments = std::map<std::string, std::string, std::less<>>;

/// The content of a training log.
struct TrainingLog {
  std::string file;
  LogFormat format = LogFormat::megatron;
  std::vector<LoggedSteps> lines;  ///< the lines that state step times; at least one
  TrainingArguments arguments;
  /// The largest memory that an allocator held, in GiB. Absent if the log does not report it. torchtitan
  /// reports reserved memory, which is larger, so it is not read.
  std::optional<double> peak_gib{};
};

/// Reads a training log. `file` is its name in messages. If the log has lines of several formats, the first
/// format in LogFormat is used. A step counts once, even if several ranks or a progress bar print it again.
/// If no line has the time of a step, returns an error that lists the forms that were looked for.
tl::expected<TrainingLog, std::string> read_training_log(std::istream& text, const std::string& file);
/// Opens and reads a training log of any size. The name "-" means standard input.
tl::expected<TrainingLog, std::string> read_training_log(const std::string& file);

/// Reads the arguments that a text states. They may be printed by Megatron-LM ("seq_length .... 8192"),
/// stand on a command line ("--seq-length 8192"), or be YAML or TOML. If a text states an argument twice,
/// the first statement counts.
TrainingArguments arguments_of(std::string_view text);

/// The steps of a log after its warm-up.
struct StepTimes {
  std::int64_t steps = 0;    ///< number of steps that are used
  std::int64_t dropped = 0;  ///< number of steps before these, which are not used
  double median = 0;
  double low = 0;      ///< a tenth of the lines has at most this time
  double high = 0;     ///< a tenth of the lines has at least this time
  std::string note{};  ///< the reason why fewer steps than usual were dropped; empty otherwise
};

/// The sizes of a run that turn a rate into the time of a step.
struct StepSize {
  double samples = 1;  ///< number of samples of a step, in all copies together
  double tokens_per_sample = 1;
  double devices = 1;
};

/// The number of steps that are not used at the start of a log and after each restart.
inline constexpr std::int64_t kWarmupSteps = 10;

/// Returns the median and the spread of the steps in seconds, without the first kWarmupSteps. If the log has
/// no later step, only its first line is dropped, and the note says so.
StepTimes step_times(const TrainingLog& log, const StepSize& size);

// Makes rows of measured runs (measured_runs.hpp) from logs of training runs.

/// The cells of a row of measured runs, by column name. Two more names are used: "global_batch_size", from
/// which the microbatches of a copy are computed, and "hidden", the width of the model.
using RunCells = std::map<std::string, std::string, std::less<>>;

/// Returns the cells that the arguments of a framework state. If they state the sizes of the model, the
/// cell of the model is the text of a config.json. Models with latent attention or shared experts have no
/// such cell.
RunCells cells_of(const TrainingArguments& arguments, LogFormat format);

/// Returns the cells of a scenario. `model` is the file of its model. Requires a model on named devices.
RunCells cells_of(const Scenario& scenario, const std::filesystem::path& model);

/// A log as a row of measured runs.
struct LoggedRun {
  RunCells cells;
  StepTimes times;
  std::vector<std::string> notes;
};

/// Makes a row of measured runs from a log. `stated` has the cells that the user states. If the log states a
/// cell as well, the log takes precedence, except for the model and the device. Returns an error if a needed
/// cell is stated by neither, or if the model has another width than the log. Also returns an error if the
/// devices or the batch cannot be divided as required.
tl::expected<LoggedRun, std::string> logged_run(const TrainingLog& log, const RunCells& stated);

/// Returns the rows as a CSV file. File names of models are relative to `directory`. The file has the
/// columns of measured runs and three more: the number of steps, and the two limits between which four
/// fifths of the step times lie.
std::string logged_runs_csv(std::span<const LoggedRun> runs, const std::filesystem::path& directory);

}  // namespace penstock

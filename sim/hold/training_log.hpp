#pragma once
// Reads the log of a training run: the times of its steps, and the arguments that the framework prints.

#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The program whose lines give the times of steps.
enum class LogFormat : std::uint8_t { megatron, nemo, torchtitan, mlperf };
template <>
inline constexpr auto kEnumWords<LogFormat> =
    std::to_array<EnumWord<LogFormat>>({{LogFormat::megatron, "megatron"},
                                        {LogFormat::nemo, "nemo"},
                                        {LogFormat::torchtitan, "torchtitan"},
                                        {LogFormat::mlperf, "mlperf"}});

/// One line about steps. It covers the steps after the previous line up to its own step.
struct LoggedSteps {
  /// The number of the last step. MLPerf counts samples, or tokens for GPT-3, in place of steps.
  std::int64_t last = 0;
  /// The time of a step in seconds, or a rate (> 0). torchtitan has tokens a second and device. MLPerf has
  /// samples or tokens a second, whichever it counts.
  double figure = 0;
};

/// Arguments by their names in Megatron-LM, such as "tensor_model_parallel_size".
using TrainingArguments = std::map<std::string, std::string, std::less<>>;

/// A log as it was read.
struct TrainingLog {
  std::string file;
  LogFormat format = LogFormat::megatron;
  std::vector<LoggedSteps> lines;  ///< at least one
  TrainingArguments arguments;
  /// The largest memory that an allocator held, in GiB. Absent if the log does not report it. torchtitan
  /// reports reserved memory, which is larger, so it is not read.
  std::optional<double> peak_gib{};
};

/// Reads a log. `file` is its name in messages. If several formats occur, the first of LogFormat counts. A
/// step that several ranks or a progress bar print again counts once. Error: the log has no line with the
/// time of a step; the message lists what was looked for.
tl::expected<TrainingLog, std::string> read_training_log(std::istream& text, const std::string& file);
/// Opens and reads a log. Its size is not limited.
tl::expected<TrainingLog, std::string> read_training_log(const std::string& file);

/// Reads arguments from any text that states them as Megatron-LM prints them ("seq_length .... 8192"), on a
/// command line ("--seq-length 8192"), in YAML or in TOML. If a text states an argument twice, the first
/// statement counts.
TrainingArguments arguments_of(std::string_view text);

/// The steps of a log after its warm-up.
struct StepTimes {
  std::int64_t steps = 0;    ///< number of steps that count
  std::int64_t dropped = 0;  ///< number of steps before them
  double median = 0;
  double low = 0;      ///< a tenth of the lines is at most this
  double high = 0;     ///< a tenth of the lines is at least this
  std::string note{};  ///< why fewer steps than usual were dropped; empty otherwise
};

/// The sizes of a run that turn a rate into the time of a step.
struct StepSize {
  double samples = 1;  ///< of all copies together
  double tokens_per_sample = 1;
  double devices = 1;
};

/// Number of steps at the start of a log, and after each restart, that do not count.
inline constexpr std::int64_t kWarmupSteps = 10;

/// Returns the median and the spread of the steps in seconds, without the first kWarmupSteps. If the log has
/// no later step, only its first line is dropped, and the note says so.
StepTimes step_times(const TrainingLog& log, const StepSize& size);

}  // namespace penstock

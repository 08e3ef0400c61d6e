#pragma once
// Makes rows of measured runs (measured_runs.hpp) from logs of training runs.

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/read/scenario.hpp"
#include "sim/hold/training_log.hpp"

namespace penstock {

/// The cells of a row of measured runs, by column name. Two names are no columns of measured runs:
/// "global_batch_size", from which the microbatches of a copy are computed, and "hidden", the width of the
/// model.
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
/// cell as well, the log takes precedence, except for the model and the device. Errors: neither states a
/// needed cell; the model has another width than the log; numbers of devices or a batch are not divisible as
/// required.
tl::expected<LoggedRun, std::string> logged_run(const TrainingLog& log, const RunCells& stated);

/// Returns the rows as a CSV file. File names of models are relative to `directory`. The file has the
/// columns of measured runs and three more: the number of steps, and the two limits between which four
/// fifths of the step times lie.
std::string logged_runs_csv(std::span<const LoggedRun> runs, const std::filesystem::path& directory);

}  // namespace penstock

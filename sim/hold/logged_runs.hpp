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

/// The cells of a row by the names of their columns. Two names are no columns: "global_batch_size", from
/// which the microbatches of a copy follow, and "hidden", the width of the model.
using RunCells = std::map<std::string, std::string, std::less<>>;

/// Returns the cells that arguments of a framework state. The model is a text of a config.json, if the
/// arguments state its sizes and it has neither latent attention nor shared experts.
RunCells cells_of(const TrainingArguments& arguments, LogFormat format);

/// Returns the cells of a scenario. `model` is the file of its model. Requires a model on named devices.
RunCells cells_of(const Scenario& scenario, const std::filesystem::path& model);

/// A log as a row of measured runs.
struct LoggedRun {
  RunCells cells;
  StepTimes times;
  std::vector<std::string> notes;
};

/// Makes the row of a log. `stated` has cells that the user states, for what the log does not say. If both
/// say something, the log counts, except for the model and the device. Errors: cells that neither states, a
/// model of another width than the log's, devices or a batch that do not divide.
tl::expected<LoggedRun, std::string> logged_run(const TrainingLog& log, const RunCells& stated);

/// Returns a CSV file of the rows. Names of models are relative to `directory`. Beside the columns of
/// measured runs it has the number of steps, and the limits between which four fifths of them lie.
std::string logged_runs_csv(std::span<const LoggedRun> runs, const std::filesystem::path& directory);

}  // namespace penstock

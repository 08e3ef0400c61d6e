#pragma once
// Makes a Scenario or an Experiment from the flags of a command. flags.hpp declares these flags.

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "scenarios/import/importers.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// Returns the files that the flags name: the scenario or program, and the files in --model and in the
/// values of --set.
std::vector<FileArgument> inputs_of(const InputFlags& flags);

/// Removes the flag that states the scenario key `key`, whose value would replace that of the key. Returns
/// the name of the flag, or an empty text if the flag is not given.
std::string_view clear_flag_of(std::string_view key, InputFlags& input, ChannelFlags& channels);
/// Returns an error if a flag states `key`, for which the flag `by` (such as "--vary") gives several values.
tl::expected<void, UserError> refuse_flag_of(std::string_view by, std::string_view key, InputFlags input,
                                             ChannelFlags channels);

/// Returns the overrides that --set and the flags of the model state, in the order in which they apply.
tl::expected<std::vector<Override>, UserError> scenario_overrides(const InputFlags& flags);

/// Reads an input of `penstock import`: a file, "-" for standard input, or the name of a recipe.
tl::expected<ImportInput, UserError> import_input(const std::string& name);

/// Returns a request to import `inputs`, with the values that the flags state in addition. `settings` has
/// one KEY=VALUE for each --set.
tl::expected<ImportRequest, UserError> import_request(std::vector<ImportInput> inputs,
                                                      const ModelFlags& flags,
                                                      const std::vector<std::string>& settings);

/// Loads the scenario or program of `flags.file`, and applies only --set of the flags. A configuration of
/// another program is imported, and a note says so. If `flags.file` is empty, returns the default scenario.
tl::expected<Scenario, UserError> load_input(const InputFlags& flags);

/// Returns the scenario of load_input() with all other flags applied. Fails if the schedule is unknown, or
/// if a flag cannot be combined with a program file.
tl::expected<Scenario, UserError> scenario_with_flags(const InputFlags& flags, const ChannelFlags& channels);

/// Returns the scenario of scenario_with_flags(). Fails if no file is given and the schedule, K or M is
/// missing.
tl::expected<Scenario, UserError> scenario_of(const InputFlags& flags, const ChannelFlags& channels);

/// Returns the batch sizes and the number of microbatches M that the flags state.
Batch stated_batch(const InputFlags& flags);

/// Returns `name` if it is a known schedule. Otherwise returns the error of unknown_schedule().
tl::expected<std::string, UserError> known_schedule(const std::string& name);

/// Prepares an experiment from the scenario and returns it (see prepare()). Fails if the lists of the
/// experiment need too much memory.
tl::expected<Experiment, UserError> prepared(const Scenario& scenario);

/// Prepares the experiment for the scenario of scenario_of() and returns it.
tl::expected<Experiment, UserError> experiment_of(const InputFlags& flags, const ChannelFlags& channels);

}  // namespace penstock

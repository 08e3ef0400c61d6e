#pragma once
// Makes a Scenario and an Experiment from the flags that describe one.

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/document_edits.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// Returns the files that the flags name: the scenario or program, --model, and the values of --set.
std::vector<FileArgument> inputs_of(const InputFlags& flags);

/// Returns the overrides by --set and the flags of the model, in the order in which they apply.
tl::expected<std::vector<Override>, UserError> scenario_overrides(const InputFlags& flags);

/// Loads the scenario or program of `flags.file` with only --set applied. Without a file it returns the
/// defaults.
tl::expected<Scenario, UserError> load_input(const InputFlags& flags);

/// Returns load_input() with all other flags applied. Errors: flags that do not go with a program file, an
/// unknown schedule.
tl::expected<Scenario, UserError> scenario_with_flags(const InputFlags& flags, const ChannelFlags& channels);

/// Returns scenario_with_flags() for one point. Error: there is no file, and the schedule, K or M is missing.
tl::expected<Scenario, UserError> scenario_of(const InputFlags& flags, const ChannelFlags& channels);

/// Returns the figures of the batch that flags state.
Batch stated_batch(const InputFlags& flags);

/// Returns `name` if find_schedule() knows it. Error: unknown_schedule().
tl::expected<std::string, UserError> known_schedule(const std::string& name);

/// Calls prepare() and turns its error into an exit code.
tl::expected<Experiment, UserError> prepared(const Scenario& scenario);

/// Returns scenario_of(), prepared.
tl::expected<Experiment, UserError> experiment_of(const InputFlags& flags, const ChannelFlags& channels);

}  // namespace penstock

#pragma once
// From the flags that name an experiment to a Scenario and an Experiment.

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/override.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// The files that the flags name: the scenario or program, --model, and what --set puts in place of a part.
std::vector<FileArgument> inputs_of(const InputFlags& flags);

/// What --set and the flags of the model put into a scenario, in the order in which one overrides the other.
tl::expected<std::vector<Override>, Failure> scenario_overrides(const InputFlags& flags);

/// The scenario or program of `flags.file` with --set applied and nothing else; without a file the defaults.
tl::expected<Scenario, Failure> load_input(const InputFlags& flags);

/// load_input() with all other flags in place. Errors: flags that do not go with a program file, an unknown
/// schedule.
tl::expected<Scenario, Failure> scenario_with_flags(const InputFlags& flags, const ChannelFlags& channels);

/// scenario_with_flags() of one point. Error: without a file, the schedule, K or M is missing.
tl::expected<Scenario, Failure> scenario_of(const InputFlags& flags, const ChannelFlags& channels);

/// The figures of the batch that are flags.
Batch stated_batch(const InputFlags& flags);

/// `name`, when find_schedule() knows it. Error: unknown_schedule().
tl::expected<std::string, Failure> known_schedule(const std::string& name);

/// prepare() with its error as an exit code.
tl::expected<Experiment, Failure> prepared(const Scenario& scenario);

/// scenario_of(), prepared.
tl::expected<Experiment, Failure> experiment_of(const InputFlags& flags, const ChannelFlags& channels);

}  // namespace penstock

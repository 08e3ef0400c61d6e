#pragma once
// From the flags that name an experiment to a Scenario and an Experiment.

#include <string>
#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "scenarios/batch.hpp"
#include "scenarios/experiment.hpp"
#include "scenarios/scenario.hpp"

namespace penstock {

/// True for .psched and .csv.
bool is_program_file(const std::string& file);

/// The scenario or program of `flags.file` with --set applied and nothing else; without a file the defaults.
tl::expected<Scenario, Failure> load_input(const InputFlags& flags);

/// load_input() with all other flags in place. Errors: flags that do not go with a program file, an unknown
/// schedule, K or M missing where there is no file.
tl::expected<Scenario, Failure> scenario_of(const InputFlags& flags, const ChannelFlags& channels);

/// The sizes with the flags' values. Where that makes three, one that only the file gives is left out and follows
/// from the others: the microbatch's size when the number of microbatches is a flag, their number otherwise.
Batch with_flags(Batch batch, const InputFlags& flags, MicrobatchMeaning meaning);

/// prepare() with its error as an exit code.
tl::expected<Experiment, Failure> prepared(const Scenario& scenario);

}  // namespace penstock

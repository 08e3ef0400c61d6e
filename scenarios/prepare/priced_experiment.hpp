#pragma once
// The last step of preparation, which adds prices, cluster and notes to a program. Used by experiment.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/model_stages.hpp"
#include "scenarios/prepare/prepared_program.hpp"
#include "scenarios/prepare/priced_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

// --- experiment notes ------------------------------------------------------------------------------------

/// Returns a note on the chunks of a schedule that has several chunks a rank by default. It states the number
/// of chunks if the scenario does not, or that one chunk removes the interleaving. Returns nothing for other
/// schedules and for program files, and if the scenario states several chunks.
std::optional<std::string> chunks_note(const Scenario& scenario);

/// The sources of a run's notes, in the order of the notes.
struct NotesTerms {
  const std::vector<std::string>& of_scenario;
  const std::vector<std::string>& of_schedule;
  const Model& model;
  Scaling samples;
  std::int32_t microbatches = 1;
  std::optional<std::string> of_chunks{};  ///< the result of chunks_note()
};

/// Returns all notes of a run in this order: the notes of the scenario, lists by microbatch whose length is
/// not M, the notes of the schedule, and the scaling of figures to another microbatch size.
std::vector<std::string> experiment_notes(const NotesTerms& terms);

// --- priced experiment -----------------------------------------------------------------------------------

/// Adds prices to `program`, which was generated from `resolved`. Errors: the errors of program_prices().
tl::expected<Experiment, std::string> priced_experiment(const SettledScenario& settled,
                                                        const ResolvedScenario& resolved, Program program);

}  // namespace penstock

#pragma once
// The last step of preparation. It adds costs, cluster and notes to a program. experiment.cpp uses it.

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

/// Returns a note about the number of chunks on each rank, for a schedule that has several chunks by
/// default. If the scenario states no number, the note names the default. If it states 1, the note says
/// that nothing is interleaved. Returns nothing if the scenario states several chunks, for other schedules,
/// and for program files.
std::optional<std::string> chunks_note(const Scenario& scenario);

/// The parts of a scenario that cause notes of a run, in the order of the notes.
struct NotesTerms {
  const std::vector<std::string>& of_scenario;
  const std::vector<std::string>& of_schedule;
  const Model& model;
  Scaling samples;
  std::int32_t microbatches = 1;
  std::int32_t slices = 1;
  std::optional<std::string> of_chunks{};  ///< the result of chunks_note()
};

/// Returns all notes of a run, in this order: the notes of the scenario; notes on lists that should have
/// one entry for each of the M microbatches and have not; the notes of the schedule; a note on figures that
/// were scaled to another microbatch size.
std::vector<std::string> experiment_notes(const NotesTerms& terms);

// --- priced experiment -----------------------------------------------------------------------------------

/// Returns the experiment that consists of `program` and its costs. Requires that `program` was generated
/// from `resolved`. Errors: the errors of program_prices().
tl::expected<Experiment, std::string> priced_experiment(const SettledScenario& settled,
                                                        const ResolvedScenario& resolved, Program program);

}  // namespace penstock

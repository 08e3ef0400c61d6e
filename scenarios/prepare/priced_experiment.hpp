#pragma once
// The last step of preparation: a program with its prices, its cluster and its notes. Used by experiment.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/resolved_scenario.hpp"
#include "scenarios/prepare/scaling.hpp"
#include "scenarios/prepare/settle.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

// --- experiment notes ------------------------------------------------------------------------------------

/// Says how many chunks a rank has in a schedule that is made for several, unless they are stated, and that
/// one chunk undoes it. Returns nothing for other schedules and for program files.
std::optional<std::string> chunks_note(const Scenario& scenario);

/// The parts of a run's notes, in their order.
struct NotesTerms {
  const std::vector<std::string>& of_scenario;
  const std::vector<std::string>& of_schedule;
  const Model& model;
  Scaling samples;
  std::int32_t microbatches = 1;
  std::optional<std::string> of_chunks{};  ///< chunks_note()
};

/// The scenario's notes; where lists of one figure a microbatch are shorter or longer than M, and what a
/// program takes then; the schedule's notes; from which size of a microbatch figures were scaled.
std::vector<std::string> experiment_notes(const NotesTerms& terms);

// --- priced experiment -----------------------------------------------------------------------------------

/// Prices `program`, which was made of the resolved one. Errors: those of program_prices().
tl::expected<Experiment, std::string> priced_experiment(const SettledScenario& settled,
                                                        const ResolvedScenario& resolved, Program program);

}  // namespace penstock

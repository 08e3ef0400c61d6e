// A note holds for all runs that differ in what it does not name: neither the wanted size of a microbatch nor
// M is said, so that a sweep over them says it once.

#include "scenarios/prepare/experiment_notes.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/scaling.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {
namespace {

bool has_overhead(const Model& model) {
  if (const auto* graph = std::get_if<LayerGraph>(&model)) return graph->overhead_ns > 0;
  const auto* figures = std::get_if<StageFigures>(&model);
  return figures != nullptr && std::ranges::any_of(figures->overhead.values, [](Ns ns) { return ns > 0; });
}

/// Nothing where figures hold for the microbatch in force.
std::optional<std::string> scaling_note(const Model& model, const Scaling& samples) {
  if (samples.wanted == samples.own) return std::nullopt;
  const std::string own = samples.own == 1 ? "one sample" : fmt::format("{} samples", samples.own);
  return std::holds_alternative<UnitCosts>(model)
             ? fmt::format(
                   "no model is given: {} takes F = I = W = 1 ms and B = 2 ms for {}, and times and bytes "
                   "are scaled linearly to the microbatch's size",
                   std::get<UnitCosts>(model).unit == CostUnit::stage ? "a stage"
                                                                      : "a rank's share of the model",
                   own)
             : fmt::format(
                   "the model's times and bytes hold for {} a microbatch and are scaled linearly to "
                   "the microbatch's size, {}",
                   own, has_overhead(model) ? "overhead apart" : "with overhead 0");
}

}  // namespace

std::optional<std::string> chunks_note(const Scenario& scenario) {
  const ScheduleInfo* schedule = scenario.program ? nullptr : find_schedule(scenario.schedule);
  if (schedule == nullptr || schedule->default_chunks == 1) return std::nullopt;
  if (scenario.shape.virtual_stages == 1) {
    return fmt::format("v is 1: {} does not interleave anything{}", schedule->name,
                       schedule->name == "interleaved" ? " and takes 1F1B's time in more memory" : "");
  }
  if (scenario.states_chunks) return std::nullopt;
  return fmt::format("v is not given: {} takes {} chunks a rank (--virtual-stages)", schedule->name,
                     scenario.shape.virtual_stages);
}

std::vector<std::string> experiment_notes(const NotesTerms& terms) {
  std::optional<std::string> scaling = scaling_note(terms.model, terms.samples);
  std::vector<std::string> notes = terms.of_scenario;
  if (const auto* figures = std::get_if<StageFigures>(&terms.model)) {
    const auto most = static_cast<std::size_t>(terms.microbatches);
    for (const auto& [length, place] : figures->microbatch_lists()) {
      if (length == most) continue;
      std::string note =
          fmt::format("{}: {} microbatches are listed, {}", place, length,
                      length < most ? "which repeat up to M" : "of which the first M are taken");
      // A file gives one list a stage, all from one place: said once.
      if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
    }
  }
  if (terms.of_chunks) notes.push_back(*terms.of_chunks);
  notes.insert(notes.end(), terms.of_schedule.begin(), terms.of_schedule.end());
  if (scaling) notes.push_back(*std::move(scaling));
  return notes;
}

}  // namespace penstock

// A Scenario is taken apart here; each step takes the parts that it needs and makes one value, once:
//
//   Scenario -> one copy of its pipeline, with cuts that were to be planned
//            -> schedule and batch in force -> its program placed
//            -> settled: what its stages cost, where they are priced on devices or by fitted costs
//            -> resolved: cut of the model, compute program
//            -> with the model's edges, valid, lowered
//            -> priced: its costs on its cluster -> Experiment
//
// A step may end with an error in words, which gets its place here; what was assumed or scaled becomes a note
// of the experiment.

#include "scenarios/prepare/experiment.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/device_model.hpp"
#include "scenarios/model/fitted_model.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/lowered_program.hpp"
#include "scenarios/prepare/one_copy.hpp"
#include "scenarios/prepare/placed_program.hpp"
#include "scenarios/prepare/prepare_error.hpp"
#include "scenarios/prepare/priced_experiment.hpp"
#include "scenarios/prepare/resolved_scenario.hpp"
#include "scenarios/prepare/schedule_in_force.hpp"
#include "scenarios/prepare/settle.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {
namespace {

/// What keeps a scenario from being prepared as loops; empty: nothing.
std::string not_rolled(const Scenario& scenario) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  if (scenario.program || schedule == nullptr) return "a program file";
  if (schedule->weighs_costs) return "a schedule that weighs what stages cost";
  if (!scenario.shape.buckets.empty()) return "stages in buckets";
  if (scenario.clones_versions) return "clones of weights, which are counted in a stored program,";
  return has_edges(scenario.model) ? "stage edges of the model" : "";
}

/// What is made of the program that a schedule gives.
enum class ProgramForm : std::uint8_t { lowered, as_generated };

using Prepared = tl::expected<Experiment, PrepareError>;

tl::unexpected<PrepareError> refused(const std::string& fault) {
  return tl::unexpected(PrepareError{.message = fault});
}

/// Errors without a place.
Prepared prepared(const Scenario& stated, ProgramForm form) {
  auto copy = one_copy(stated);
  if (!copy) return refused(copy.error());
  // From here on the copy's scenario stays where it is until it is settled: the schedule in force points at
  // its program.
  const auto in_force = schedule_in_force(copy->scenario, copy->copies);
  if (!in_force) return refused(in_force.error());
  auto placed = placed_program(in_force->schedule);
  if (!placed) return refused(placed.error());
  const auto settled = settle(*std::move(copy), *in_force, *placed);
  if (!settled) return refused(settled.error());
  auto resolved = resolve(settled->scenario, *in_force, *std::move(placed));
  if (!resolved) return refused(resolved.error());
  Program program = std::move(resolved->program);
  // Edges of the model are not the rule's own, so that its word that the program is valid does not hold for
  // them.
  if (form == ProgramForm::lowered || has_edges(settled->scenario.model)) {
    auto lowered = lowered_program(std::move(program), settled->scenario.model);
    if (!lowered) return tl::unexpected(lowered.error());
    program = *std::move(lowered);
  }
  auto experiment = priced_experiment(*settled, *resolved, std::move(program));
  if (!experiment) return refused(experiment.error());
  return *std::move(experiment);
}

/// The same with loops in the place of lists.
tl::expected<RolledExperiment, PrepareError> rolled_experiment(const Scenario& stated) {
  auto copy = one_copy(stated);
  if (!copy) return refused(copy.error());
  if (const std::string reason = not_rolled(copy->scenario); !reason.empty()) {
    return refused(
        fmt::format("{} cannot be streamed, and at most 2^29 compute actions are stored; take fewer stages, "
                    "microbatches or iterations",
                    reason));
  }
  const auto in_force = schedule_in_force(copy->scenario, copy->copies);
  if (!in_force) return refused(in_force.error());
  auto rolled = generate_loops(in_force->schedule.name, in_force->schedule.shape);
  if (!rolled) return refused(rolled.error());
  const auto settled = settle(*std::move(copy), *in_force, rolled->program);
  if (!settled) return refused(settled.error());
  auto resolved = resolve(settled->scenario, *in_force, std::move(rolled->program));
  if (!resolved) return refused(resolved.error());
  auto experiment = priced_experiment(*settled, *resolved, std::move(resolved->program));
  if (!experiment) return refused(experiment.error());
  return RolledExperiment{.experiment = *std::move(experiment), .lists = std::move(rolled->lists)};
}

}  // namespace

Prepared prepare(const Scenario& stated) {
  return prepared(stated, ProgramForm::lowered).map_error([&](PrepareError error) {
    return in_file(stated.file, std::move(error));
  });
}

Prepared prepare_as_generated(const Scenario& stated) {
  const ProgramForm form = stated.program ? ProgramForm::lowered : ProgramForm::as_generated;
  return prepared(stated, form).map_error([&](PrepareError error) {
    return in_file(stated.file, std::move(error));
  });
}

tl::expected<RolledExperiment, PrepareError> prepare_rolled(const Scenario& stated) {
  return rolled_experiment(stated).map_error(
      [&](PrepareError error) { return in_file(stated.file, std::move(error)); });
}

namespace {

/// Returns the compute actions of a program's lists, as often as they are run.
double listed_actions(const Program& program, std::int32_t iterations) {
  std::ptrdiff_t actions = 0;
  for (const std::vector<Action>& list : program.ranks)
    actions += std::ranges::count_if(list, [](const Action& action) { return is_compute(action.kind); });
  return static_cast<double>(actions) * std::max(program.iterations, iterations);
}

bool is_priced_by_one_copy(const Model& model) {
  return std::holds_alternative<DeviceModel>(model) || std::holds_alternative<FittedModel>(model);
}

}  // namespace

double compute_actions(const Scenario& scenario) {
  if (scenario.program) return listed_actions(*scenario.program, scenario.shape.iterations);
  // Such a model shares its batch out to its copies; a partition that is to be planned takes too long to be
  // planned for this.
  std::optional<std::int32_t> copies;
  if (is_priced_by_one_copy(scenario.model)) {
    const auto copy = one_copy(scenario);
    if (!copy) return 0;
    copies = copy->copies;
  }
  const auto in_force = schedule_in_force(scenario, copies);
  return in_force ? compute_actions(in_force->schedule.name, in_force->schedule.shape) : 0;
}

bool may_be_rolled(const Scenario& scenario) {
  return !scenario.program && !is_priced_by_one_copy(scenario.model);
}

}  // namespace penstock

// Hundreds of programs serve ten thousands of configurations. A search that goes by lower bounds times few of
// them, so each is made when it is first timed; all together might not fit the memory, so only so many
// actions of them are kept.

#include "sim/tuning/program_library.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/compile.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/schedule_outline.hpp"

namespace penstock {
namespace {

/// Positions of programs that are kept: some 100 bytes each, with their tapes.
constexpr std::size_t kMostPositions = 8'000'000;

/// The configuration's program for stages that cost the same.
Generated constructed(const Scenario& scenario, std::int32_t microbatches) {
  Shape shape = scenario.shape;
  shape.microbatches = microbatches;
  return generate(scenario.schedule, shape);
}

tl::expected<TunedProgram, std::string> made(const TuneRequest& request, const Configuration& configuration) {
  Scenario scenario = scenario_of(request, configuration);
  if (find_schedule(configuration.schedule)->weighs_costs) {
    auto program = constructed(scenario, configuration.microbatches);
    if (!program) return tl::unexpected(program.error());
    scenario.program = *std::move(program);
  }
  auto experiment = prepare(scenario);
  if (!experiment) return tl::unexpected(experiment.error().message);
  TunedProgram tuned{.experiment = *std::move(experiment), .flat = {}, .tape = {}};
  const Experiment& of = tuned.experiment;
  tuned.flat = flatten(of.program, of.costs, {.channels = of.channels, .iterations = of.program.iterations});
  auto tape = compile(tuned.flat, of.channels, microbatch_groups(of.costs));
  if (!tape) {
    return tl::unexpected(fmt::format("{} with {} stages and {} microbatches hangs under these channels",
                                      configuration.schedule, configuration.stages,
                                      configuration.microbatches));
  }
  tuned.tape = *std::move(tape);
  return tuned;
}

}  // namespace

tl::expected<const ScheduleOutline*, std::string> ProgramLibrary::outline(
    const Configuration& configuration) {
  const std::int32_t microbatches = outlined_microbatches(configuration.stages, configuration.microbatches);
  const Key key(configuration.schedule, configuration.stages, configuration.virtual_stages, microbatches);
  if (const auto known = outlines_.find(key); known != outlines_.end()) return &known->second;
  const auto program = constructed(scenario_of(request_, configuration), microbatches);
  if (!program) return tl::unexpected(program.error());
  return &outlines_.emplace(key, outline_of(*program)).first->second;
}

std::shared_ptr<const TunedProgram> ProgramLibrary::found(const Key& key) {
  const std::scoped_lock lock(mutex_);
  const auto known = std::ranges::find(kept_, key, &Kept::key);
  if (known == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, known);
  return kept_.front().program;
}

void ProgramLibrary::keep(const Key& key, const std::shared_ptr<const TunedProgram>& program) {
  const std::scoped_lock lock(mutex_);
  kept_.push_front({.key = key, .program = program});
  positions_ += program->flat.ops.size();
  while (positions_ > kMostPositions && kept_.size() > 1) {
    positions_ -= kept_.back().program->flat.ops.size();
    kept_.pop_back();
  }
}

tl::expected<std::shared_ptr<const TunedProgram>, std::string> ProgramLibrary::program(
    const Configuration& configuration) {
  const Key key = key_of(configuration);
  if (auto known = found(key)) return known;
  auto program = made(request_, configuration);
  if (!program) return tl::unexpected(program.error());
  auto shared = std::make_shared<const TunedProgram>(*std::move(program));
  keep(key, shared);
  return shared;
}

}  // namespace penstock

// Hundreds of programs serve ten thousands of configurations. A search that goes by lower bounds times few of
// them, so each is made when it is first timed; all together might not fit the memory, so only so many
// actions of them are kept.

#include "sim/tuning/program_library.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/prepare/schedule_outline.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/gather.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/compile.hpp"
#include "sim/engines/turn_tape.hpp"
#include "sim/tuning/configuration.hpp"

namespace penstock {
namespace {

/// Instructions of tapes that are kept: some 60 bytes each, with their programs.
constexpr std::size_t kMostInstructions = 16'000'000;

/// The configuration's program for stages that cost the same, as one of the copies has it. Without sharding:
/// what copies exchange is in the prices.
Generated constructed(const Scenario& scenario, std::int32_t microbatches) {
  Shape shape = scenario.shape;
  shape.sharding.reset();
  shape.gather = Gather::microbatch;
  shape.microbatches = microbatches;
  return generate(scenario.schedule, shape);
}

/// Channels that block or have a capacity, and hosts that launch, ask for a walk through lowered lists.
tl::expected<TunedProgram, std::string> walked(const Scenario& scenario, const Program& program) {
  auto lowered = lower(program);
  if (!lowered) return tl::unexpected(lowered.error());
  const CostTable costs{.stages = std::vector<StageCost>(index(program.stage_count())),
                        .edges = std::vector<EdgeCost>(stage_edges(program).size()),
                        .launch = scenario.launch};
  const FlatProgram flat =
      flatten(*lowered, costs, {.channels = scenario.channels, .iterations = lowered->iterations});
  auto tape = compile(flat, scenario.channels);
  if (!tape) {
    return tl::unexpected(fmt::format("{} with {} stages and {} microbatches hangs under these channels",
                                      scenario.schedule, scenario.shape.stages, program.microbatches));
  }
  // In the place where a program by turns has its own, so that both are timed alike.
  TurnTape turns;
  turns.tape = *std::move(tape);
  return TunedProgram{.program = *std::move(lowered),
                      .is_lowered = true,
                      .channels = scenario.channels,
                      .turns = std::move(turns)};
}

/// By turns where these tell all: no list of messages is made then, which is most of a program.
tl::expected<TunedProgram, std::string> made(const TuneRequest& request, const Configuration& configuration) {
  const Scenario scenario = scenario_of(request, configuration);
  auto program = constructed(scenario, configuration.microbatches);
  if (!program) return tl::unexpected(program.error());
  auto turns =
      scenario.launch.is_free() ? compile_turns(*program, scenario.channels) : std::optional<TurnTape>();
  if (!turns || turns->has_collectives) return walked(scenario, *program);
  return TunedProgram{
      .program = *std::move(program), .channels = scenario.channels, .turns = *std::move(turns)};
}

}  // namespace

tl::expected<const ScheduleOutline*, std::string> ProgramLibrary::outline(
    const Configuration& configuration) {
  // Programs that differ in M alone share an outline, from M = 2 K on.
  const std::int32_t microbatches = outlined_microbatches(configuration.stages, configuration.microbatches);
  Key key(configuration.schedule, configuration.stages, configuration.virtual_stages, microbatches);
  if (const auto known = outlines_.find(key); known != outlines_.end()) return &known->second;
  const Scenario scenario = scenario_of(request_, configuration);
  auto program = constructed(scenario, microbatches);
  if (!program && microbatches < configuration.microbatches) {
    // Some take M and not so few: groups of 6 on 4 ranks divide 24 and not 8.
    key = key_of(configuration);
    if (const auto known = outlines_.find(key); known != outlines_.end()) return &known->second;
    program = constructed(scenario, configuration.microbatches);
  }
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
  instructions_ += program->turns.tape.size();
  // The newest stays, however large; whoever still uses one that is dropped has a share of it.
  while (instructions_ > kMostInstructions && kept_.size() > 1) {
    instructions_ -= kept_.back().program->turns.tape.size();
    kept_.pop_back();
  }
}

tl::expected<std::shared_ptr<const TunedProgram>, std::string> ProgramLibrary::program(
    const Configuration& configuration) {
  // Not locked while it is made: two threads that ask for the same one both make it, which is rare and right.
  const Key key = key_of(configuration);
  if (auto known = found(key)) return known;
  auto program = made(request_, configuration);
  if (!program) return tl::unexpected(program.error());
  auto shared = std::make_shared<const TunedProgram>(*std::move(program));
  keep(key, shared);
  return shared;
}

}  // namespace penstock

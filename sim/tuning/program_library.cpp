// Caches programs. Tens of thousands of configurations share hundreds of programs. A search with lower bounds
// times few of them, so each is generated when it is first timed. All programs together might not fit into
// memory, so the number of stored instructions is limited. Tests: tests/sim/tuning_test.cpp.

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

/// Limit of the stored tape instructions. An instruction takes about 60 bytes, including its part of the
/// program.
constexpr std::size_t kMostInstructions = 16'000'000;

/// Generates the program for stages of equal cost, as one copy of the pipeline runs it. It has no sharding,
/// because the prices include what copies exchange.
Generated constructed(const Scenario& scenario, std::int32_t microbatches) {
  Shape shape = scenario.shape;
  shape.sharding.reset();
  shape.gather = Gather::microbatch;
  shape.microbatches = microbatches;
  return generate(scenario.schedule, shape);
}

/// Compiles the program from its lowered lists. This is needed for channels that block or have a capacity,
/// and for launches of the host.
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
  // The tape is stored in the same field as the tape of placement rounds, so that both are timed by the same
  // code.
  TurnTape turns;
  turns.tape = *std::move(tape);
  return TunedProgram{.program = *std::move(lowered),
                      .is_lowered = true,
                      .channels = scenario.channels,
                      .turns = std::move(turns)};
}

/// Compiles the program. If placement rounds can express it, no list of messages is made. Such lists would
/// take most of a program's memory.
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
  // From M = 2 K on, programs that differ only in M share an outline.
  const std::int32_t microbatches = outlined_microbatches(configuration.stages, configuration.microbatches);
  Key key(configuration.schedule, configuration.stages, configuration.virtual_stages, microbatches);
  if (const auto known = outlines_.find(key); known != outlines_.end()) return &known->second;
  const Scenario scenario = scenario_of(request_, configuration);
  auto program = constructed(scenario, microbatches);
  if (!program && microbatches < configuration.microbatches) {
    // Some schedules accept M but not the smaller number: groups of 6 on 4 ranks divide 24 but not 8.
    key = key_of(configuration);
    if (const auto known = outlines_.find(key); known != outlines_.end()) return &known->second;
    program = constructed(scenario, configuration.microbatches);
  }
  if (!program) return tl::unexpected(program.error());
  return &outlines_.emplace(key, outline_of(*program)).first->second;
}

std::shared_ptr<const TunedProgram> ProgramLibrary::found(const Key& key) {
  const std::scoped_lock lock(mutex_);
  const auto known = std::ranges::find(cached_, key, &Cached::key);
  if (known == cached_.end()) return nullptr;
  cached_.splice(cached_.begin(), cached_, known);
  return cached_.front().program;
}

void ProgramLibrary::store(const Key& key, const std::shared_ptr<const TunedProgram>& program) {
  const std::scoped_lock lock(mutex_);
  cached_.push_front({.key = key, .program = program});
  instructions_ += program->turns.tape.size();
  // The newest program is stored, however large it is. Callers that still use a dropped program own a share
  // of the program.
  while (instructions_ > kMostInstructions && cached_.size() > 1) {
    instructions_ -= cached_.back().program->turns.tape.size();
    cached_.pop_back();
  }
}

tl::expected<std::shared_ptr<const TunedProgram>, std::string> ProgramLibrary::program(
    const Configuration& configuration) {
  // The mutex is not locked while a program is made. If two threads need the same program, both make it,
  // which is rare and harmless.
  const Key key = key_of(configuration);
  if (auto known = found(key)) return known;
  auto program = made(request_, configuration);
  if (!program) return tl::unexpected(program.error());
  auto shared = std::make_shared<const TunedProgram>(*std::move(program));
  store(key, shared);
  return shared;
}

}  // namespace penstock

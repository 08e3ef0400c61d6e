// Runs small programs with the executor and the in-process transport of backend/. An exception that is thrown
// here fails the test that called the function, because the test's program is then wrong.

#include "tests/backend/execution.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/threads/in_process_transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/backend/echo_module.hpp"
#include "tests/backend/sequential_training.hpp"

namespace penstock {

Program read_program(const std::string& text) {
  const auto program = parse_program(text, "test.psched");
  if (!program) throw std::runtime_error(program.error());
  return lowered(*program);
}

Program lowered(const Program& program) {
  auto done = lower(program);
  if (!done) throw std::runtime_error(done.error());
  return *std::move(done);
}

CostTable free_costs(const Program& program, Bytes bytes) {
  return uniform_costs(program, {}, {.activation = bytes, .gradient = bytes});
}

EchoRun run_echo(const Program& program, const ChannelOptions& channels, Bytes message_bytes) {
  const FlatProgram flat = flatten(program, free_costs(program, message_bytes),
                                   {.channels = channels, .iterations = program.iterations});
  const SteadyClock clock;
  InProcessTransport transport(flat, channels, {}, clock);
  EchoRun run{.modules = echo_modules(program), .timeline = {}, .error = {}};
  auto timeline = execute({.program = program,
                           .flat = flat,
                           .modules = run.modules,
                           .transport = transport,
                           .clock = clock,
                           .deadline = std::chrono::seconds(20)});
  if (timeline) {
    run.timeline = *std::move(timeline);
  } else {
    run.error = timeline.error().message;
  }
  return run;
}

namespace {

std::string difference_of(const EchoModule& module, const std::vector<echo::Weights>& steps) {
  if (module.steps().size() != steps.size()) {
    return fmt::format("{} steps, expected {}", module.steps().size(), steps.size());
  }
  for (std::size_t k = 0; k < steps.size(); ++k) {
    if (module.steps()[k] != steps[k]) return fmt::format("the gradient of step {} differs", k);
  }
  if (module.held() != 0) return fmt::format("{} microbatches are still held", module.held());
  return module.left_over() == echo::Weights{} ? "" : "a gradient was never used";
}

}  // namespace

std::string difference(const Program& program, const StageModules& modules,
                       const std::vector<echo::Gradients>& expected) {
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    std::string found = difference_on_rank(program, modules, expected, rank);
    if (!found.empty()) return found;
  }
  return "";
}

std::string difference_on_rank(const Program& program, const StageModules& modules,
                               const std::vector<echo::Gradients>& expected, std::int32_t rank) {
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    const auto& ranks = program.placement.stages[static_cast<std::size_t>(stage)].ranks;
    if (std::ranges::find(ranks, rank) == ranks.end()) continue;
    const auto& steps = expected[static_cast<std::size_t>(rank)][static_cast<std::size_t>(stage)];
    const std::string found = difference_of(echo_of(modules, rank, stage), steps);
    if (!found.empty()) return fmt::format("rank {}, stage {}: {}", rank, stage, found);
  }
  return "";
}

LinkPace free_links(const FlatProgram&) { return {}; }

}  // namespace penstock

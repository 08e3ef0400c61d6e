// Shrinks a failing program in two steps. It first reduces the shape while the schedule still fails. Then it
// removes ranks, stages, microbatches and actions (passes/counterexample.hpp). Finally it checks the small
// program again, so that the message describes the program that is printed.

#include "cli/commands/smallest_failure.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/print/units.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/hanging_shape.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/counterexample.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/text/program_text.hpp"

namespace penstock {
namespace {

/// Finds the smallest program with the same fault. It is invalid, cannot be lowered, hangs, or has crossed
/// messages. In the last two cases the result has the lowered lists, because the message names positions in
/// them. Returns nothing if `program` has no fault.
std::optional<SmallestFailure> shrunk(const Program& program, const ChannelOptions& channels,
                                      const CostTable& costs) {
  auto found = smallest_counterexample(program, channels, costs);
  if (!found) return std::nullopt;
  SmallestFailure failure{.program = std::move(found->program), .message = {}, .cycle = {}, .shape = {}};
  if (const auto valid = validate(failure.program); !valid) {
    failure.message = valid.error();
  } else if (const auto lowered = lower(failure.program); !lowered) {
    failure.message = lowered.error();
  } else if (auto hang = find_hang(*lowered, channels, found->costs)) {
    failure.program = *lowered;
    failure.message = std::move(hang->message);
    failure.cycle = std::move(hang->cycle);
    failure.crossed = std::move(hang->crossed);
  }
  return failure;
}

/// Returns the size of a program, such as "2 ranks, 2 stages, 1 microbatch".
std::string shape_in_words(const Program& program) {
  return fmt::format("{}, {}, {} microbatch{}", format_count(program.rank_count(), "rank"),
                     format_count(program.stage_count(), "stage"), program.microbatches,
                     program.microbatches == 1 ? "" : "es");
}

}  // namespace

std::optional<SmallestFailure> smallest_failure(const Scenario& scenario) {
  auto experiment = prepare(scenario);
  if (!experiment) {
    // An invalid generated program cannot be shrunk. An invalid program file can be shrunk with unit costs,
    // because its own costs are not known yet.
    if (!scenario.program) return std::nullopt;
    return shrunk(*scenario.program, scenario.channels, unit_costs(*scenario.program));
  }
  if (scenario.program) return shrunk(experiment->program, scenario.channels, experiment->costs);
  if (!find_hang(experiment->program, experiment->channels, experiment->costs)) return std::nullopt;
  const ShapedExperiment smallest = smallest_hanging_shape(scenario, *std::move(experiment));
  auto failure = shrunk(smallest.experiment.program, scenario.channels, smallest.experiment.costs);
  if (failure) failure->shape = smallest.shape;
  return failure;
}

std::string to_text(const SmallestFailure& failure) {
  std::string text =
      fmt::format("the smallest program that fails in the same way: {}\n", shape_in_words(failure.program));
  if (failure.shape) {
    text += fmt::format("(the schedule itself does from --pp-size {} --num-microbatches {}{} on)\n",
                        failure.shape->stages, failure.shape->microbatches,
                        failure.shape->virtual_stages == 1
                            ? ""
                            : fmt::format(" --virtual-stages {}", failure.shape->virtual_stages));
  }
  return text + fmt::format("\n{}\n{}\n", to_text(failure.program), failure.message);
}

}  // namespace penstock

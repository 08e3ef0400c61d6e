// Parts of programs that several schedule rules share. The first group of functions makes placements:
//
//   looped         stage s on rank s mod K              0 1 2 3 0 1 2 3        K = 4, v = 2
//   zigzag         down the ranks and back up           0 1 2 3 3 2 1 0
//   bidirectional  stage s on ranks s and K - 1 - s     0|3 1|2 2|1 3|0
//
// The second group appends the ends of lists: the reductions of stages with replicas, and the STEPs.

#include "schedules/ir/program_parts.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

namespace {

/// Returns a program with K empty lists. Its fields are set from the shape.
Program program_of(std::string schedule, const Shape& shape) {
  Program program{.schedule = std::move(schedule),
                  .microbatches = shape.microbatches,
                  .iterations = shape.iterations,
                  .barrier = shape.barrier};
  program.ranks.resize(static_cast<std::size_t>(shape.stages));
  return program;
}

/// Calls `add(rank, step)` for each STEP (optimizer step) of each rank, in ascending order of stages.
/// Stages that run only forwards have none.
template <class Add>
void for_each_step(const Program& program, const Add& add) {
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    if (program.placement.stages[static_cast<std::size_t>(stage)].is_forward_only()) continue;
    for (const std::int32_t rank : program.placement.stages[static_cast<std::size_t>(stage)].ranks)
      add(rank, whole_stage(ActionKind::step, stage));
  }
}

}  // namespace

Program looped_program(std::string schedule, const Shape& shape) {
  Program program = program_of(std::move(schedule), shape);
  for (std::int32_t stage = 0; stage < shape.stages * shape.virtual_stages; ++stage) {
    program.placement.stages.push_back({.ranks = {stage % shape.stages}});
  }
  return program;
}

Program zigzag_program(std::string schedule, const Shape& shape, std::int32_t chunks) {
  Program program = program_of(std::move(schedule), shape);
  for (std::int32_t stage = 0; stage < shape.stages * chunks; ++stage) {
    const std::int32_t place = stage % shape.stages;
    const bool down = stage / shape.stages % 2 == 0;
    program.placement.stages.push_back({.ranks = {down ? place : shape.stages - 1 - place}});
  }
  return program;
}

Program bidirectional_program(std::string schedule, const Shape& shape,
                              const std::vector<std::int32_t>& route) {
  Program program = program_of(std::move(schedule), shape);
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    const std::int32_t mirror = shape.stages - 1 - stage;
    // If K is odd, both directions of the middle stage are on the same rank, so the stage has one replica.
    if (stage == mirror) {
      program.placement.stages.push_back({.ranks = {stage}});
    } else {
      program.placement.stages.push_back({.ranks = {stage, mirror}, .route = route});
    }
  }
  return program;
}

void append_reductions(Program& program) {
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    const std::vector<std::int32_t>& ranks = program.placement.stages[static_cast<std::size_t>(stage)].ranks;
    // A stage with one replica has no other rank to reduce its gradients with.
    if (ranks.size() == 1) continue;
    for (const std::int32_t rank : ranks) {
      program.ranks[static_cast<std::size_t>(rank)].push_back(whole_stage(ActionKind::reduce_grad, stage));
    }
  }
}

void append_steps(Program& program) {
  for_each_step(program, [&](std::int32_t rank, const Action& step) {
    program.ranks[static_cast<std::size_t>(rank)].push_back(step);
  });
}

void append_steps(RolledProgram& rolled) {
  for_each_step(rolled.program, [&](std::int32_t rank, const Action& step) {
    rolled.lists[static_cast<std::size_t>(rank)].append(step);
  });
}

RolledProgram with_empty_loops(Program program) {
  std::vector<ActionLoops> lists(program.ranks.size());
  return {.program = std::move(program), .lists = std::move(lists)};
}

Program spelled_out(RolledProgram rolled, const Shape& shape) {
  Program program = unrolled(std::move(rolled));
  insert_recompute(program, shape);
  return program;
}

Program forward_half(Program program, Passes passes) {
  set_passes(program, passes);
  for (std::vector<Action>& list : program.ranks) {
    std::erase_if(list, [](const Action& action) { return action.kind != ActionKind::forward; });
    for (Action& action : list) action.overlaps_next = false;
  }
  return program;
}

RolledProgram forward_half(RolledProgram rolled, Passes passes) {
  set_passes(rolled.program, passes);
  for (ActionLoops& list : rolled.lists) {
    ActionLoops half;
    for (RunLoop loop : list.loops()) {
      for (ActionRun& run : loop.runs) {
        std::erase_if(run.pattern,
                      [](const PatternAction& here) { return here.action.kind != ActionKind::forward; });
        for (PatternAction& here : run.pattern) here.action.overlaps_next = false;
      }
      std::erase_if(loop.runs, [](const ActionRun& run) { return run.pattern.empty(); });
      if (!loop.runs.empty()) half.append(std::move(loop));
    }
    list = std::move(half);
  }
  return rolled;
}

void insert_recompute(Program& program, const Shape& shape) {
  if (shape.checkpoint == Checkpoint::never) return;
  program.recompute = shape.recompute;
  // `except_last` does not recompute the last microbatch. In torchgpipe's order (newest first), its backward
  // runs directly after its forward, so dropping its activations would save nothing. With other settings
  // `kept` is kNoMicrobatch, which equals the microbatch of no action here.
  const std::int32_t kept =
      shape.checkpoint == Checkpoint::except_last ? program.microbatches - 1 : kNoMicrobatch;
  for (std::vector<Action>& list : program.ranks) {
    std::vector<Action> with_recompute;
    // An R may be added for each pair of F and B.
    with_recompute.reserve(list.size() * 3 / 2);
    for (const Action& action : list) {
      // A B or I needs the R before it. W uses the activations that the R has restored, so it needs no R.
      if (makes_input_gradient(action.kind) && action.microbatch / program.slices != kept) {
        with_recompute.push_back(
            compute(ActionKind::recompute, action.stage, action.microbatch, action.weight_version));
      }
      with_recompute.push_back(action);
    }
    list = std::move(with_recompute);
  }
}

void reserve_actions(Program& program, std::int64_t actions_per_rank) {
  // The number of STEPs of a rank, one for each of its stages. It may be one too large, because it only
  // reserves memory.
  const std::int64_t steps = program.stage_count() / program.rank_count() + 1;
  for (std::vector<Action>& list : program.ranks)
    list.reserve(static_cast<std::size_t>(actions_per_rank + steps));
}

std::int32_t warmup_of(const Shape& shape, std::int32_t stage, std::int32_t rule) {
  if (shape.warmup.empty()) return rule;
  if (shape.warmup.size() == 1) return shape.warmup.front();
  return shape.warmup[static_cast<std::size_t>(stage)];
}

}  // namespace penstock

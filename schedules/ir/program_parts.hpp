#pragma once
// Functions that several rules use to make programs. Only schedules/ includes this header.

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// Returns a compute action.
inline Action compute(ActionKind kind, std::int32_t stage, std::int32_t microbatch,
                      std::int32_t weight_version = 0) {
  return {.kind = kind, .stage = stage, .microbatch = microbatch, .weight_version = weight_version};
}
inline Action forward(std::int32_t stage, std::int32_t microbatch, std::int32_t weight_version = 0) {
  return compute(ActionKind::forward, stage, microbatch, weight_version);
}
inline Action backward(std::int32_t stage, std::int32_t microbatch, std::int32_t weight_version = 0) {
  return compute(ActionKind::backward, stage, microbatch, weight_version);
}
inline Action whole_stage(ActionKind kind, std::int32_t stage) { return {.kind = kind, .stage = stage}; }

/// Returns a program with empty lists and the looped placement: stage c*K + r is chunk c of rank r.
Program looped_program(std::string schedule, const Shape& shape);

/// Returns a program with empty lists and a zigzag placement: the stages go down the ranks and back up. Chunk
/// c of rank r is stage c*K + r if c is even, and stage c*K + K-1-r if c is odd. With two chunks, the path of
/// a microbatch has the shape of a V.
Program zigzag_program(std::string schedule, const Shape& shape, std::int32_t chunks = 2);

/// Returns a program with empty lists and two ranks, s and K-1-s, for each stage s. If both numbers are
/// equal, the stage has one rank. Microbatch m goes in direction route[m modulo the size of `route`]: 0 is
/// down the ranks, 1 is up.
Program bidirectional_program(std::string schedule, const Shape& shape,
                              const std::vector<std::int32_t>& route);

/// Appends REDUCE_GRADs: one for each stage that several ranks hold, to the list of each of these ranks. A
/// list gets them in ascending order of stages.
void append_reductions(Program& program);

/// Appends a STEP for each stage to the lists of its ranks, in ascending order of stages.
void append_steps(Program& program);
void append_steps(RolledProgram& rolled);

/// Returns the program with a list of loops for each rank. All lists are empty.
RolledProgram with_empty_loops(Program program);

/// Returns the program with plain lists instead of loops. It also inserts the recomputations that `shape`
/// requires, because rules do not write them in loops.
Program spelled_out(RolledProgram rolled, const Shape& shape);

/// Returns the forward passes of a compute program, in their order, with these passes for all stages. The
/// lists lose all other actions. An overlapped pair becomes its forward.
Program forward_half(Program program, Passes passes);
RolledProgram forward_half(RolledProgram rolled, Passes passes);

/// Inserts an R before the backward pass of every microbatch that shape.checkpoint recomputes.
void insert_recompute(Program& program, const Shape& shape);

/// Reserves memory in each rank's list for `actions_per_rank` actions and for the STEPs of the rank's stages.
void reserve_actions(Program& program, std::int64_t actions_per_rank);

/// Returns the number of warm-up forwards of `stage`: the value in shape.warmup, or `rule` if shape.warmup is
/// empty.
std::int32_t warmup_of(const Shape& shape, std::int32_t stage, std::int32_t rule);

}  // namespace penstock

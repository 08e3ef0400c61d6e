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

/// Returns a program with empty lists and the looped placement. In this placement, stage c*K + r is chunk c
/// of rank r.
Program looped_program(std::string schedule, const Shape& shape);

/// Returns a program with empty lists and a zigzag placement: consecutive stages go down the ranks and back
/// up. Chunk c of rank r is stage c*K + r if c is even, and stage c*K + K-1-r if c is odd. With two chunks,
/// the path of a microbatch has the shape of a V.
Program zigzag_program(std::string schedule, const Shape& shape, std::int32_t chunks = 2);

/// Returns a program with empty lists in which each stage s is on two ranks, s and K-1-s. If both numbers
/// are equal, the stage is on one rank. Microbatch m goes in direction route[m modulo the size of `route`].
/// Direction 0 is down the ranks, and 1 is up.
Program bidirectional_program(std::string schedule, const Shape& shape,
                              const std::vector<std::int32_t>& route);

/// Appends a REDUCE_GRAD for each stage that several ranks hold, to the lists of all these ranks. Each list
/// gets its REDUCE_GRADs in ascending order of stages.
void append_reductions(Program& program);

/// Appends a STEP for each stage to the lists of its ranks, in ascending order of stages.
void append_steps(Program& program);
void append_steps(RolledProgram& rolled);

/// Returns `program` in the form that stores the list of each rank as loops. All these lists are empty.
RolledProgram with_empty_loops(Program program);

/// Returns the program with plain lists instead of loops. Also inserts the recomputations that `shape`
/// requires, because rules do not write recomputations in loops.
Program spelled_out(RolledProgram rolled, const Shape& shape);

/// Returns the program with its forward passes alone, in the same order. Sets `passes` as the passes of all
/// stages. An overlapped pair becomes its forward pass, and all other actions are removed. Requires a
/// compute program.
Program forward_half(Program program, Passes passes);
RolledProgram forward_half(RolledProgram rolled, Passes passes);

/// Inserts an R (recomputation) before the backward pass of every microbatch that is recomputed.
/// `shape.checkpoint` says which microbatches these are.
void insert_recompute(Program& program, const Shape& shape);

/// Reserves memory in each rank's list for `actions_per_rank` actions and for the STEPs of the rank's stages.
void reserve_actions(Program& program, std::int64_t actions_per_rank);

/// Returns the number of warm-up forwards of `stage`: the value in shape.warmup, or `rule` if shape.warmup is
/// empty.
std::int32_t warmup_of(const Shape& shape, std::int32_t stage, std::int32_t rule);

}  // namespace penstock

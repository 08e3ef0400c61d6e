#pragma once
// Parts of programs that several rules share. Only schedules/ includes this header.

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

/// Returns a program with empty lists whose stage c*K + r is chunk c of rank r ("loop" placement).
Program looped_program(std::string schedule, const Shape& shape);

/// Returns a program with empty lists whose stages go down the ranks and back up. Chunk c of rank r is stage
/// c*K + r if c is even, and stage c*K + K-1-r if c is odd. Two chunks are a V.
Program zigzag_program(std::string schedule, const Shape& shape, std::int32_t chunks = 2);

/// Returns a program with empty lists whose stage s is on ranks s and K-1-s, or on one rank if these are
/// equal. `route` states for each microbatch, modulo its size, whether it goes down the ranks (0) or up (1).
Program bidirectional_program(std::string schedule, const Shape& shape,
                              const std::vector<std::int32_t>& route);

/// Appends one REDUCE_GRAD for every stage that several ranks hold to the lists of these ranks, in ascending
/// order of stages.
void append_reductions(Program& program);

/// Appends one STEP for every stage of a rank to its list, in ascending order of stages.
void append_steps(Program& program);
void append_steps(RolledProgram& rolled);

/// Returns the program with empty loops in place of its empty lists.
RolledProgram with_empty_loops(Program program);

/// Returns the program that declared loops stand for. It inserts the recomputations that `shape` asks for,
/// which loops do not contain.
Program spelled_out(RolledProgram rolled, const Shape& shape);

/// Inserts an R before the backward of every microbatch that shape.checkpoint recomputes.
void insert_recompute(Program& program, const Shape& shape);

/// Reserves memory for `actions_per_rank` actions on every rank, and for a STEP of each of its stages.
void reserve_actions(Program& program, std::int64_t actions_per_rank);

/// Returns the number of warm-up forwards of `stage`: the entry of shape.warmup if it is given, `rule`
/// otherwise.
std::int32_t warmup_of(const Shape& shape, std::int32_t stage, std::int32_t rule);

}  // namespace penstock

#pragma once
// The pieces that several generators share. Private to schedules/.

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

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

/// A program with empty lists whose stage c*K + r is chunk c of rank r ("loop" placement).
Program looped_program(std::string schedule, const Shape& shape);

/// The same for stages that go down the ranks and back up, chunk by chunk: chunk c of rank r is stage
/// c*K + r where c is even and c*K + K-1-r where it is odd. Two chunks are a V.
Program zigzag_program(std::string schedule, const Shape& shape, std::int32_t chunks = 2);

/// A program with empty lists whose stage s is on ranks s and K-1-s (once where they are the same). `route`
/// says of each microbatch, numbered modulo its size, whether it goes down the ranks (0) or up (1).
Program bidirectional_program(std::string schedule, const Shape& shape,
                              const std::vector<std::int32_t>& route);

/// Puts one REDUCE_GRAD for every stage that several ranks hold at the end of their lists, in ascending
/// stage order.
void append_reductions(Program& program);

/// Puts one STEP for every stage of a rank at the end of its list, in ascending stage order.
void append_steps(Program& program);
void append_steps(RolledProgram& rolled);

/// The program with empty loops for its empty lists.
RolledProgram with_empty_loops(Program program);

/// What declared loops stand for, with the recomputations that `shape` asks for, which loops leave out.
Program spelled_out(RolledProgram rolled, const Shape& shape);

/// Puts an R before the backward of every microbatch that shape.checkpoint says is recomputed.
void insert_recompute(Program& program, const Shape& shape);

/// Makes room for so many actions on every rank, and for a STEP of each of its stages.
void reserve_actions(Program& program, std::int64_t actions_per_rank);

/// The warm-up forwards of `stage`: shape.warmup's entry where it is given, `rule` otherwise.
std::int32_t warmup_of(const Shape& shape, std::int32_t stage, std::int32_t rule);

}  // namespace penstock

#pragma once
// The pieces that several generators share. Private to schedules/.

#include <cstdint>
#include <string>

#include "schedules/action.hpp"
#include "schedules/generators.hpp"
#include "schedules/program.hpp"

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

/// Puts one STEP for every stage of a rank at the end of its list, in ascending stage order.
void append_steps(Program& program);

/// Puts an R before the backward of every microbatch that shape.checkpoint says is recomputed.
void insert_recompute(Program& program, const Shape& shape);

/// The warm-up forwards of `stage`: shape.warmup's entry where it is given, `rule` otherwise.
std::int32_t warmup_of(const Shape& shape, std::int32_t stage, std::int32_t rule);

}  // namespace penstock

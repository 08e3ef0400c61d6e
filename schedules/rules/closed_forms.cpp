// The published formulas for the bubble (idle time) of each schedule. Sources:
//
//   GPipe         section 2.3; the bubble is (K-1)/(M+K-1)
//   1F1B          PipeDream-2BW, section 2
//   Interleaved   Megatron-LM (SC'21), section 2.2: divided by v
//   Zero Bubble   ICLR'24, table 1: (K-1)(F+I-W); its automatic schedules, ZB-V and PyTorch's forms reach it
//                 on equal stages
//   DualPipe      DeepSeek-V3, table 2: (K/2-1)(F&B + B - 3W) with F&B = F + B; DualPipeV: on 2K half stages
//   Seq1F1B       the formula of 1F1B divided by q
//   kFkB          the formula of 1F1B
//
// The formulas of Chimera, GEMS and Hanayo were fitted to the rules in this folder. closed_forms_test.cpp
// compares all formulas with the simulator.

#include "schedules/rules/closed_forms.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {
namespace {

using Idle = std::optional<double>;

// Defines short names for conditions. others() is the number of other ranks. fills() is true if there are at
// least as many microbatches as ranks. divides() is true if M is a multiple of K.
double others(const Shape& shape) { return shape.stages - 1; }
bool fills(const Shape& shape) { return shape.microbatches >= shape.stages; }
bool divides(const Shape& shape) { return shape.microbatches % shape.stages == 0; }

/// Returns true if the shape has only options that the formulas for the bubble cover. They do not cover
/// recomputation, stated warm-ups, costs and similar options.
bool is_plain(const Shape& shape) {
  return shape.checkpoint == Checkpoint::never && shape.warmup.empty() && shape.replicas.empty() &&
         shape.iterations == 1 && !shape.costs && shape.memory_limit.empty() && shape.transfer_ns.empty() &&
         shape.group_size == 0 && !shape.expert_overlap;
}

Idle one_rank_at_a_time(const Shape& shape) { return 3 * others(shape) * shape.microbatches; }
Idle one_pass(const Shape& shape) { return 3 * others(shape); }
Idle one_sliced_pass(const Shape& shape) {
  if (shape.microbatches * shape.slices < shape.stages) return std::nullopt;
  return 3 * others(shape) / shape.slices;
}
Idle one_pass_by_rounds(const Shape& shape) { return divides(shape) ? one_pass(shape) : std::nullopt; }
Idle one_pass_if_filled(const Shape& shape) { return fills(shape) ? one_pass(shape) : std::nullopt; }
Idle zero_bubble(const Shape& shape) { return fills(shape) ? Idle(others(shape)) : std::nullopt; }
Idle zero_bubble_by_rounds(const Shape& shape) { return divides(shape) ? Idle(others(shape)) : std::nullopt; }
Idle zero_bubble_twice_filled(const Shape& shape) {
  return shape.microbatches >= 2 * shape.stages - 1 ? Idle(others(shape)) : std::nullopt;
}
Idle dual_pipe_idle(const Shape& shape) { return shape.stages - 2; }
Idle dual_pipe_v_idle(const Shape& shape) { return 2 * others(shape); }
Idle chimera_idle(const Shape& shape) {
  if (!divides(shape)) return std::nullopt;
  const std::int32_t rounds = shape.microbatches / shape.stages;
  return (shape.stages - 2.0) * (1 + rounds);
}
Idle gems_idle(const Shape& shape) { return others(shape) * (2 * shape.microbatches + 1); }
Idle hanayo_idle(const Shape& shape) {
  if (!divides(shape) || shape.virtual_stages != 2) return std::nullopt;
  const std::int32_t rounds = shape.microbatches / shape.stages;
  return 2 * others(shape) * (1 + rounds);
}

constexpr std::string_view kAnyShape = "any K and M";
constexpr std::string_view kFilled = "M >= K";
constexpr std::string_view kRounds = "M a multiple of K";

constexpr std::array kClosedForms = {
    ClosedForm{"naive", "3M(K-1)", kAnyShape, true, one_rank_at_a_time},
    ClosedForm{"gpipe", "3(K-1)", kAnyShape, true, one_pass},
    ClosedForm{"1f1b", "3(K-1)", kAnyShape, true, one_pass},
    ClosedForm{"interleaved", "3(K-1)", kRounds, true, one_pass_by_rounds},
    ClosedForm{"zb-h1", "K-1", kFilled, false, zero_bubble},
    ClosedForm{"zb-h2", "K-1", "M >= 2K-1", false, zero_bubble_twice_filled},
    ClosedForm{"zb-1p", "K-1", kFilled, false, zero_bubble},
    ClosedForm{"zb-2p", "K-1", kFilled, false, zero_bubble},
    ClosedForm{"eager-1f1b", "3(K-1)", kAnyShape, true, one_pass},
    ClosedForm{"kfkb", "3(K-1)", kAnyShape, true, one_pass},
    ClosedForm{"seq-1f1b", "3(K-1)/q", "M q >= K", true, one_sliced_pass},
    ClosedForm{"looped-bfs", "3(K-1)", kFilled, true, one_pass_if_filled},
    ClosedForm{"interleaved-zero-bubble", "K-1", kRounds, false, zero_bubble_by_rounds},
    ClosedForm{"zb-v", "K-1", kFilled, false, zero_bubble},
    ClosedForm{"zbv-zero-bubble", "K-1", "M >= 2K-1", false, zero_bubble_twice_filled},
    ClosedForm{"dualpipe", "K-2", "even K, even M >= 2K", false, dual_pipe_idle},
    ClosedForm{"dualpipe-v", "2(K-1)", "M >= 2K", false, dual_pipe_v_idle},
    ClosedForm{"chimera", "(K-2)(1+M/K)", kRounds, false, chimera_idle},
    ClosedForm{"gems", "(K-1)(2M+1)", kAnyShape, false, gems_idle},
    ClosedForm{"hanayo", "2(K-1)(1+M/K)", "M a multiple of K, v = 2", false, hanayo_idle},
    ClosedForm{"pipedream-2bw", "3(K-1)", kAnyShape, true, one_pass},
};

}  // namespace

const ClosedForm* find_closed_form(std::string_view schedule) {
  const auto* const found = std::ranges::find(kClosedForms, schedule, &ClosedForm::schedule);
  return found == kClosedForms.end() ? nullptr : found;
}

std::optional<double> closed_form_bubble(const ScheduleInfo& schedule, const Shape& shape) {
  if (shape.passes != Passes::both) return std::nullopt;  // the formulas count backwards
  const ClosedForm* form = find_closed_form(schedule.name);
  if (form == nullptr || !is_plain(shape)) return std::nullopt;
  Shape pipeline = shape;  // Only one copy is counted, because all copies are equal.
  pipeline.microbatches /= shape.data_parallel;
  pipeline.virtual_stages = chunks_of(schedule, shape);
  const Idle idle = form->idle_of(pipeline);
  if (!idle) return std::nullopt;
  // For each microbatch and chunk, F and B together take 3 units of time. F, I and W together also take 3.
  return *idle / (*idle + 3.0 * pipeline.microbatches * pipeline.virtual_stages);
}

}  // namespace penstock

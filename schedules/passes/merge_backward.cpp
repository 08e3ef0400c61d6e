// An I that its W follows at once is a B:
//
//   0F0 0I0 0W0 0I1 1F0 0W1   ->   0F0 0B0 0I1 1F0 0W1
//
// Schedules that split the backward are written with halves throughout; where nothing comes between them, one
// B has less overhead and lets go of all memory at once. Halves with different weight versions or in an
// overlapped pair stay.

#include "schedules/passes/merge_backward.hpp"

#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

bool are_halves(const Action& input, const Action& weight) {
  return input.kind == ActionKind::backward_input && weight.kind == ActionKind::backward_weight &&
         input.stage == weight.stage && input.microbatch == weight.microbatch &&
         input.weight_version == weight.weight_version && !input.overlaps_next && !weight.overlaps_next;
}

/// One rank's list. What was merged is a B and merges with nothing more, so that one pass is enough.
std::vector<Action> merged(const std::vector<Action>& actions) {
  std::vector<Action> result;
  bool last_overlapped = false;  // the last action of `result` ends a group
  for (const Action& action : actions) {
    if (!result.empty() && !last_overlapped && are_halves(result.back(), action)) {
      result.back().kind = ActionKind::backward;
      continue;
    }
    // An I that ends a group does not stand alone, although it overlaps nothing behind it.
    last_overlapped = !result.empty() && result.back().overlaps_next;
    result.push_back(action);
  }
  return result;
}

}  // namespace

Program merge_backward(const Program& program) {
  Program result = program;
  for (std::vector<Action>& actions : result.ranks) actions = merged(actions);
  return result;
}

}  // namespace penstock


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

/// Merges one rank's list. A new B cannot merge with another action, so one pass is enough.
std::vector<Action> merged(const std::vector<Action>& actions) {
  std::vector<Action> result;
  bool last_overlapped = false;  // true if the last action of `result` ends a group
  for (const Action& action : actions) {
    if (!result.empty() && !last_overlapped && are_halves(result.back(), action)) {
      result.back().kind = ActionKind::backward;
      continue;
    }
    // An I at the end of a group belongs to the group, although its flag overlaps_next is not set.
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

// Inserts the gathers of fully sharded stages as PyTorch does. Such a stage must gather its weights before it
// runs, but the memory of a rank is too small for the gathered weights of all its stages. The following list
// is interleaved 1F1B on a rank with stages 0 and 2 and at most 3 gathered stages, after both passes:
//   0UNSHARD 2UNSHARD 0F0 0F1 2F0 2F1 2B0 2B1 2REDUCE_GRAD 2RESHARD 0B0 0B1 0REDUCE_GRAD 0RESHARD
//
// A window moves over the list. Before each group of compute actions, it contains the next few different
// stages, beginning with the stages of this group. Stages outside the window are dropped. A stage that enters
// the window is gathered, so that its weights arrive while earlier stages compute.
//
//   actions   0F0 0F1 | 2F0 2F1 2B0 2B1 0B0 0B1      at | with room for one: window {2}, so 0RESHARD 2UNSHARD
//
// sharding.cpp applies ZeRO with Penstock's own placement. Tests: tests/schedules/sharding_test.cpp.

#include "schedules/passes/passes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

namespace {

bool uses_weights(const Action& action) { return has_weight_version(action.kind); }

/// A pass that inserts UNSHARD (gather) and RESHARD (drop) into one rank's list. `upcoming_` contains the
/// next use of each stage that the rank will run again. The window is the beginning of `upcoming_`.
class UnshardPass {
 public:
  UnshardPass(const std::vector<Action>& actions, std::size_t max_active, std::size_t lookahead);
  std::vector<Action> run();

 private:
  std::vector<std::int32_t> window(std::size_t size) const;
  std::vector<std::int32_t> needed(const Action& next) const;
  bool waits_for_reduction(std::int32_t stage) const;
  void drop_all_but(const std::vector<std::int32_t>& stages);
  void gather(const std::vector<std::int32_t>& stages);

  const std::vector<Action>& actions_;
  std::size_t max_active_;
  std::size_t lookahead_;
  /// For each position, the position at which the same stage is used next.
  std::vector<std::size_t> next_use_;
  /// For each position, the first position of the overlapped group to which its action belongs.
  std::vector<std::size_t> group_;
  /// The next use of each stage that the rank will run again: the position and the number of the stage.
  std::set<std::pair<std::size_t, std::int32_t>> upcoming_;
  /// The stages that have a REDUCE_GRAD later in the list.
  std::multiset<std::int32_t> to_reduce_;
  std::set<std::int32_t> active_;
  std::vector<Action> result_;
};

UnshardPass::UnshardPass(const std::vector<Action>& actions, std::size_t max_active, std::size_t lookahead)
    : actions_(actions),
      max_active_(max_active),
      lookahead_(lookahead),
      next_use_(actions.size(), actions.size()) {
  for (std::size_t begin = 0; begin < actions.size(); begin = group_end(actions, begin)) {
    group_.insert(group_.end(), group_end(actions, begin) - begin, begin);
  }
  std::map<std::int32_t, std::size_t> first_use;
  for (std::size_t position = actions.size(); position-- > 0;) {
    if (actions[position].kind == ActionKind::reduce_grad) to_reduce_.insert(actions[position].stage);
    if (!uses_weights(actions[position])) continue;
    const auto [use, is_new] = first_use.try_emplace(actions[position].stage, position);
    // The loop goes backwards through the list, so the use that was stored last is the next use after this
    // position.
    if (!is_new) next_use_[position] = std::exchange(use->second, position);
  }
  for (const auto& [stage, position] : first_use) upcoming_.emplace(position, stage);
}

std::vector<Action> UnshardPass::run() {
  for (std::size_t begin = 0; begin < actions_.size();) {
    const std::size_t end = group_end(actions_, begin);
    // Stages are dropped before others are gathered, because dropping frees memory.
    if (is_compute(actions_[begin].kind)) drop_all_but(needed(actions_[begin]));
    // The beginning of the window is gathered, not only the stages of this group, so that gathers run while
    // earlier stages compute.
    if (uses_weights(actions_[begin])) gather(window(lookahead_));
    for (; begin < end; ++begin) {
      result_.push_back(actions_[begin]);
      const std::int32_t stage = actions_[begin].stage;
      if (actions_[begin].kind == ActionKind::reduce_grad) to_reduce_.extract(stage);
      // The entry of the stage moves to its next use. After the last use it is removed.
      if (upcoming_.erase({begin, stage}) > 0 && next_use_[begin] < actions_.size()) {
        upcoming_.emplace(next_use_[begin], stage);
      }
    }
  }
  drop_all_but({});
  return std::move(result_);
}

/// Returns the stages whose weights must be gathered before the action. STEP updates the shards, so weights
/// that were gathered before it are outdated.
std::vector<std::int32_t> UnshardPass::needed(const Action& next) const {
  std::vector<std::int32_t> stages = window(max_active_);
  if (next.kind == ActionKind::step) std::erase(stages, next.stage);
  return stages;
}

/// Returns the stages in the window, which are the next `size` stages to run. A window never divides a
/// group, so its last group can make it larger.
std::vector<std::int32_t> UnshardPass::window(std::size_t size) const {
  std::vector<std::int32_t> stages;
  std::size_t last_group = 0;
  for (const auto& [position, stage] : upcoming_) {
    if (stages.size() >= size && group_[position] != last_group) break;
    last_group = group_[position];
    stages.push_back(stage);
  }
  return stages;
}

/// Returns true if the weights of the stage must stay gathered until its REDUCE_GRAD. Its gradients are
/// stored with the gathered weights, so both are dropped together after the last use.
bool UnshardPass::waits_for_reduction(std::int32_t stage) const {
  const bool is_used = std::ranges::any_of(upcoming_, [&](const auto& use) { return use.second == stage; });
  return !is_used && to_reduce_.contains(stage);
}

/// Drops the weights of all gathered stages except `stages`. They are dropped in ascending order, as in
/// PyTorch's pass.
void UnshardPass::drop_all_but(const std::vector<std::int32_t>& stages) {
  std::vector<std::int32_t> dropped;
  std::ranges::copy_if(active_, std::back_inserter(dropped), [&](std::int32_t stage) {
    return std::ranges::find(stages, stage) == stages.end() && !waits_for_reduction(stage);
  });
  for (const std::int32_t stage : dropped) {
    active_.erase(stage);
    result_.push_back({.kind = ActionKind::reshard, .stage = stage});
  }
}

/// Inserts an UNSHARD for each of `stages` whose weights the rank has not gathered yet, in the order in
/// which the rank needs them.
void UnshardPass::gather(const std::vector<std::int32_t>& stages) {
  for (const std::int32_t stage : stages) {
    if (active_.insert(stage).second) result_.push_back({.kind = ActionKind::unshard, .stage = stage});
  }
}

/// Returns the position after the SENDs that begin at `begin`. Gradients are sent to other ranks before the
/// reduction.
std::size_t end_of_sends(const std::vector<Action>& actions, std::size_t begin) {
  while (begin < actions.size() && is_send(actions[begin].kind)) ++begin;
  return begin;
}

/// Returns a mark for each position: true if it is the last B or W of its stage before a STEP of the stage or
/// the end of the list. Stages that already have a REDUCE_GRAD get no mark.
std::vector<bool> last_backwards(const std::vector<Action>& actions) {
  std::set<std::int32_t> finished;  // stages with a REDUCE_GRAD, and stages whose last backward was found
  for (const Action& action : actions) {
    if (action.kind == ActionKind::reduce_grad) finished.insert(action.stage);
  }
  const std::set<std::int32_t> reducing = finished;
  std::vector<bool> last(actions.size(), false);
  // The loop goes backwards, so the first B or W of a stage that it finds is the last one in the list. Before
  // a STEP of the stage, it looks for the next one again.
  for (std::size_t position = actions.size(); position-- > 0;) {
    const Action& action = actions[position];
    if (action.kind == ActionKind::step && !reducing.contains(action.stage)) finished.erase(action.stage);
    if (makes_weight_gradient(action.kind)) last[position] = finished.insert(action.stage).second;
  }
  return last;
}

/// Returns one rank's list in which a REDUCE_GRAD follows each group that last_backwards() marks.
std::vector<Action> with_reduce_grad(const std::vector<Action>& actions) {
  const std::vector<bool> is_due = last_backwards(actions);
  std::vector<Action> result;
  for (std::size_t begin = 0; begin < actions.size();) {
    const std::size_t end = group_end(actions, begin);
    std::vector<Action> reductions;
    for (std::size_t position = begin; position < end; ++position) {
      if (is_due[position])
        reductions.push_back({.kind = ActionKind::reduce_grad, .stage = actions[position].stage});
    }
    const std::size_t behind = reductions.empty() ? end : end_of_sends(actions, end);
    result.insert(result.end(), actions.begin() + static_cast<std::ptrdiff_t>(begin),
                  actions.begin() + static_cast<std::ptrdiff_t>(behind));
    result.insert(result.end(), reductions.begin(), reductions.end());
    begin = behind;
  }
  return result;
}

}  // namespace

std::vector<std::int32_t> automatic_lookahead(std::int32_t ranks, std::int32_t max_active_stages) {
  std::vector<std::int32_t> lookahead;
  lookahead.reserve(ranks);
  for (std::int32_t rank = 0; rank < ranks; ++rank)
    lookahead.push_back(std::min(rank + 2, max_active_stages));
  return lookahead;
}

Program insert_unshard_reshard(const Program& program, const UnshardOptions& options) {
  Program result = program;
  result.sharding = 3;
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
    std::vector<Action>& actions = result.ranks[rank];
    const std::int32_t lookahead =
        options.lookahead.empty() ? options.max_active_stages : options.lookahead[rank];
    actions = UnshardPass(actions, static_cast<std::size_t>(options.max_active_stages),
                          static_cast<std::size_t>(lookahead))
                  .run();
  }
  return result;
}

Program insert_reduce_grad(const Program& program) {
  Program result = program;
  for (std::vector<Action>& actions : result.ranks) actions = with_reduce_grad(actions);
  return result;
}

namespace {

bool are_halves(const Action& input, const Action& weight) {
  return input.kind == ActionKind::backward_input && weight.kind == ActionKind::backward_weight &&
         input.stage == weight.stage && input.microbatch == weight.microbatch &&
         input.weight_version == weight.weight_version && !input.overlaps_next && !weight.overlaps_next;
}

/// Merges I (gradient of the input) and W (gradient of the weights) into B in one rank's list. A new B
/// cannot merge with another action, so one pass is enough.
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

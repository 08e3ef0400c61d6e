// Offloads activations of a compute program, as Megatron-LM (issue 1913) and PipeOffload (arXiv 2503.01328)
// do. An OFFLOAD comes directly after its F. A RELOAD comes one compute action before the B or I that needs
// the activation. The copy then runs at the same time as this compute action.
//
//   1F1B, K = 3, rank 0, all activations
//
//   without   0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3
//   with      0F0     0F1     0F2     0B0 0F3     0B1 0B2 0B3
//                O0      O1      O2          O3
//                        R0          R1      R2      R3           O, R: OFFLOAD and RELOAD
//
// Here 0RELOAD0 is before 0F2, and 0RELOAD1 is before 0F3. O3 runs during 0B1, and R3 during 0B2.
//
// An activation stays on the device if fewer than two compute actions are between its F and its B. No
// computation would hide its copies, and the rank would wait for them. For this reason the last stage of 1F1B
// offloads nothing. The other activations are chosen evenly: with a share of one half, every second one. If
// the share is larger than the number of these activations, all of them are offloaded. Tests:
// offload_test.cpp of tests/sim/.

#include "schedules/passes/passes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// An activation that a rank may offload, as positions in its list.
struct Activation {
  Action forward;
  std::size_t behind_forward = 0;  ///< the position after the overlapped group that contains its F
  std::size_t reload_at = 0;       ///< the position of the compute group one before that of its B or I
};

/// Returns the positions at which the groups of compute actions begin. A group is a single action, or actions
/// that overlap.
std::vector<std::size_t> compute_groups(const std::vector<Action>& list) {
  std::vector<std::size_t> groups;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (is_compute(list[i].kind) && opens_group(list, i)) groups.push_back(i);
  }
  return groups;
}

/// Returns the activations that may be offloaded, in the order of their F. For each of their two copies
/// (OFFLOAD and RELOAD), a compute action runs at the same time.
std::vector<Activation> activations_of(const std::vector<Action>& list) {
  struct Made {
    std::size_t group = 0;  // the number of the group that has the F
    std::size_t entry = 0;
  };
  std::map<std::pair<std::int32_t, std::int32_t>, Made> made;  // the F of each stage and unit
  std::vector<Activation> found;
  const std::vector<std::size_t> groups = compute_groups(list);
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const std::size_t end = group_end(list, groups[group]);
    for (std::size_t i = groups[group]; i < end; ++i) {
      const Action& action = list[i];
      if (action.kind == ActionKind::forward) {
        made[{action.stage, action.microbatch}] = {.group = group, .entry = found.size()};
        found.push_back({.forward = action, .behind_forward = end});
      } else if (makes_input_gradient(action.kind)) {
        const Made& by = made.at({action.stage, action.microbatch});
        // At least two groups must be between F and backward, because the OFFLOAD runs during the first one
        // and the RELOAD during the last one.
        if (group >= by.group + 3) found[by.entry].reload_at = groups[group - 1];
      }
    }
  }
  std::erase_if(found, [](const Activation& activation) { return activation.reload_at == 0; });
  return found;
}

std::vector<Action> with_copies(const std::vector<Action>& list, double share) {
  const std::vector<Activation> candidates = activations_of(list);
  const auto forwards = static_cast<double>(std::ranges::count(list, ActionKind::forward, &Action::kind));
  const auto wanted = static_cast<std::size_t>(std::llround(share * forwards));
  const std::size_t chosen = std::min(wanted, candidates.size());
  // The copies to insert before each position. The OFFLOAD and the RELOAD of one activation never have the
  // same position, so the order of copies at a position does not matter.
  std::map<std::size_t, std::vector<Action>> copies;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const bool is_chosen = (i + 1) * chosen / candidates.size() > i * chosen / candidates.size();
    if (!is_chosen) continue;
    const Activation& activation = candidates[i];
    Action copy{.kind = ActionKind::offload,
                .stage = activation.forward.stage,
                .microbatch = activation.forward.microbatch};
    copies[activation.behind_forward].push_back(copy);
    copy.kind = ActionKind::reload;
    copies[activation.reload_at].push_back(copy);
  }
  std::vector<Action> result;
  result.reserve(list.size() + 2 * chosen);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (const auto here = copies.find(i); here != copies.end())
      result.insert(result.end(), here->second.begin(), here->second.end());
    result.push_back(list[i]);
  }
  return result;
}

}  // namespace

Program offload_activations(Program program, std::span<const double> shares) {
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const double share = shares.size() == 1 ? shares.front() : shares[rank];
    if (share > 0) program.ranks[rank] = with_copies(program.ranks[rank], share);
  }
  return program;
}

}  // namespace penstock

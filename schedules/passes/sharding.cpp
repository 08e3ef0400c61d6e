// Applies ZeRO to a program. In this example two ranks share stages 0 and 1 and have the same actions (a =
// REDUCE_GRAD, s = STEP, u = UNSHARD, r = RESHARD):
//
//   sharded 1, 2          0F 1F 1B 1a 0B 0a 1s 0s 0u 1u
//   sharded 3             0u 1u 0F 0r 1F 1r 1u 0u 1B 1a 1r 0B 0a 0r 1s 0s
//   sharded 3, by step    0u 1u 0F 1F 1B 1a 1r 0B 0a 0r 1s 0s
//
// With several microbatches, sharding 1 has one REDUCE_GRAD for each stage, after the last B. Sharding 2 and
// 3 by step also have one. Otherwise, sharding 2 and 3 have one after every B, and sharding 3 gathers weights
// around every F and B (microbatch_exchange.cpp). Tested by sharding_test.cpp.

#include "schedules/passes/sharding.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/gather.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/fsdp.hpp"
#include "schedules/passes/microbatch_exchange.hpp"
#include "schedules/passes/shared_gathers.hpp"

namespace penstock {
namespace {

tl::expected<void, std::string> check_updates(const Program& program) {
  if (program.update == UpdateRule::minibatch) return {};
  // If several versions exist, a gather must name one of them, but it cannot.
  return tl::unexpected(fmt::format(
      "sharding: {} updates its weights more than once a minibatch or keeps several versions of them, which "
      "parts of weights cannot; take a schedule with one update a minibatch, such as 1f1b",
      program.schedule));
}

/// Checks that the gradients of shared stages are reduced. Only a reduced sum can be divided into parts.
tl::expected<void, std::string> check_reduction(const Program& program) {
  for (const std::vector<Action>& actions : program.ranks) {
    for (const Action& step : actions) {
      if (step.kind != ActionKind::step || !is_shared(program, step.stage)) continue;
      const Action reduction{.kind = ActionKind::reduce_grad, .stage = step.stage};
      if (std::ranges::find(actions, reduction) == actions.end()) {
        return tl::unexpected(fmt::format(
            "sharding: the ranks of stage {} do not reduce their gradients; leave `replica_sync: off` out",
            step.stage));
      }
    }
  }
  return {};
}

/// Inserts an UNSHARD for each shared stage that the list updates, for ZeRO 1 and 2. All of them come after
/// the last STEP.
void gather_behind_steps(const Program& program, std::vector<Action>& actions) {
  std::vector<Action> gathers;
  std::size_t behind = 0;
  for (std::size_t position = 0; position < actions.size(); ++position) {
    if (actions[position].kind != ActionKind::step) continue;
    behind = position + 1;
    // The STEP has updated only the rank's own part of the weights, so all ranks must gather before the next
    // F.
    if (is_shared(program, actions[position].stage))
      gathers.push_back({.kind = ActionKind::unshard, .stage = actions[position].stage});
  }
  // Every rank gathers in ascending order of stages. Different orders of collectives on different ranks would
  // hang.
  std::ranges::sort(gathers, {}, &Action::stage);
  actions.insert(actions.begin() + static_cast<std::ptrdiff_t>(behind), gathers.begin(), gathers.end());
}

}  // namespace

tl::expected<Program, std::string> shard_stages(const Program& program, const ShardOptions& options) {
  const std::int32_t sharding = options.sharding;
  if (sharding == 0) return program;
  if (auto checked = check_updates(program); !checked) return tl::unexpected(checked.error());
  if (auto checked = check_reduction(program); !checked) return tl::unexpected(checked.error());
  tl::expected<Program, std::string> result = program;
  const bool each_microbatch = sharding > 1 && options.gather == Gather::microbatch;
  if (each_microbatch) {
    result = exchange_each_microbatch(program, sharding);
  } else if (sharding == 3) {
    // If the window covers all stages, gathered weights remain until their last use.
    result = insert_unshard_reshard(program, program.stage_count());
  }
  if (!result) return result;
  result->sharding = sharding;
  if (sharding < 3) {
    for (std::vector<Action>& actions : result->ranks) gather_behind_steps(program, actions);
  }
  return sharding == 3 || each_microbatch ? with_exchanges_of_shared_stages(*std::move(result)) : result;
}

}  // namespace penstock

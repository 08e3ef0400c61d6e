// Applies ZeRO to the ranks that share a stage, in three parts. The first part exchanges sharded weights and
// gradients around each microbatch. The second part makes all ranks gather shared stages in the same order.
// The third part, shard_stages(), decides for each ZeRO stage what is exchanged and when. Tested by
// sharding_test.cpp.

#include "schedules/passes/passes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

// Adds the exchanges of sharded stages around every microbatch. In PyTorch's placement (passes.hpp),
// gathered weights remain for the next microbatch.

/// Returns the compute program with a REDUCE_GRAD after each backward pass of a shared stage. Under sharding
/// 3, each forward and backward pass also has an UNSHARD before it and a RESHARD after it. While a pass
/// computes, the weights of the next passes are gathered. At most `kGatheredAhead` passes, including the
/// current one, have gathered weights. Existing REDUCE_GRADs of shared stages are removed. Requires sharding
/// 2 or 3 and no UNSHARD or RESHARD. Fails if the ranks of a stage run different numbers of backward passes.
tl::expected<Program, std::string> exchange_each_microbatch(const Program& program, std::int32_t sharding);

/// The largest number of passes with gathered weights on a rank at the same time.
inline constexpr std::size_t kGatheredAhead = 3;

// Under ZeRO 2 and 3, the ranks of a stage exchange its parts around each microbatch. The following list is
// of one of two ranks that share stages 0 and 1 under sharding 3 (u = UNSHARD, a = REDUCE_GRAD, r = RESHARD).
// Sharding 2 has the same list without u and r:
//
//   0u 1u 0F0 0r 1F0 1r 1u 0u 1B0 1a 1r 0B0 0a 0r
//
// In this file, a pass is a sequence of actions with the same microbatch, direction and stage: one F, one B,
// or I and W. An R before them belongs to the pass. The pass of an overlapped pair has several stages.
// Weights are gathered before each pass and dropped after it, even if the next pass needs them again, as in
// FSDP. Tested by sharding_test.cpp.

namespace {

/// The key of a forward or backward pass: its stage, its microbatch and its direction.
struct PassKey {
  std::int32_t stage = 0;
  std::int32_t microbatch = 0;
  bool forward = false;

  friend auto operator<=>(const PassKey&, const PassKey&) = default;
};

/// The positions [begin, end) in a list that form one pass.
struct Pass {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::set<PassKey> keys{};
  /// The shared stages of the actions in this pass, which uses their weights.
  std::set<std::int32_t> stages{};
  /// The shared stages for which the pass computes weight gradients.
  std::set<std::int32_t> reduced{};
};

Pass pass_of_group(const Program& program, const std::vector<Action>& actions, std::size_t begin) {
  Pass pass{.begin = begin, .end = group_end(actions, begin)};
  for (std::size_t i = begin; i < pass.end; ++i) {
    const Action& action = actions[i];
    pass.keys.insert({.stage = action.stage,
                      .microbatch = action.microbatch / program.slices,
                      .forward = action.kind == ActionKind::forward});
    if (!is_shared(program, action.stage)) continue;
    pass.stages.insert(action.stage);
    if (makes_weight_gradient(action.kind)) pass.reduced.insert(action.stage);
  }
  return pass;
}

std::vector<Pass> passes_of(const Program& program, const std::vector<Action>& actions) {
  std::vector<Pass> passes;
  for (std::size_t begin = 0; begin < actions.size(); begin = group_end(actions, begin)) {
    if (!has_weight_version(actions[begin].kind)) continue;
    Pass pass = pass_of_group(program, actions, begin);
    const bool goes_on = !passes.empty() && passes.back().end == begin && passes.back().keys == pass.keys;
    if (!goes_on) {
      passes.push_back(std::move(pass));
      continue;
    }
    passes.back().end = pass.end;
    passes.back().reduced.merge(pass.reduced);
  }
  return passes;
}

/// A writer of the new list of one rank. It inserts gathers and reductions around the rank's passes.
class ExchangeWriter {
 public:
  ExchangeWriter(const Program& program, std::vector<Action> actions, std::int32_t sharding)
      : actions_(std::move(actions)), passes_(passes_of(program, actions_)), gathers_(sharding == 3) {}

  std::vector<Action> run() {
    std::size_t written = 0;
    for (std::size_t number = 0; number < passes_.size(); ++number) {
      const Pass& pass = passes_[number];
      copy(written, pass.begin);
      if (gathers_) gather(number);
      copy(pass.begin, pass.end);
      add(ActionKind::reduce_grad, pass.reduced);
      if (gathers_) drop(pass.stages);
      written = pass.end;
    }
    copy(written, actions_.size());
    return std::move(result_);
  }

 private:
  void copy(std::size_t begin, std::size_t end) {
    result_.insert(result_.end(), actions_.begin() + static_cast<std::ptrdiff_t>(begin),
                   actions_.begin() + static_cast<std::ptrdiff_t>(end));
  }
  void add(ActionKind kind, const std::set<std::int32_t>& stages) {
    for (const std::int32_t stage : stages) result_.push_back({.kind = kind, .stage = stage});
  }

  /// Gathers the weights for pass `number` and for the following passes. It stops before a pass if one of
  /// its stages is still gathered for an earlier pass. The weights of this stage must first be dropped
  /// (RESHARD).
  void gather(std::size_t number) {
    const std::size_t last = std::min(number + kGatheredAhead, passes_.size());
    for (std::size_t next = number; next < last; ++next) {
      for (const std::int32_t stage : passes_[next].stages) {
        const auto [holder, fresh] = held_for_.try_emplace(stage, next);
        if (fresh) result_.push_back({.kind = ActionKind::unshard, .stage = stage});
        if (holder->second != next) return;
      }
    }
  }

  void drop(const std::set<std::int32_t>& stages) {
    for (const std::int32_t stage : stages) held_for_.erase(stage);
    add(ActionKind::reshard, stages);
  }

  std::vector<Action> actions_;
  std::vector<Pass> passes_;
  bool gathers_;
  std::map<std::int32_t, std::size_t> held_for_;  // number of the pass that needs each gathered stage
  std::vector<Action> result_;
};

/// Checks that all ranks of a stage reduce its gradients equally often. Each reduction needs all of these
/// ranks.
tl::expected<void, std::string> check_reductions(const Program& program) {
  const auto reductions = [&](std::int32_t rank, std::int32_t stage) {
    return std::ranges::count(program.ranks[index(rank)],
                              Action{.kind = ActionKind::reduce_grad, .stage = stage});
  };
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    const std::vector<std::int32_t>& ranks = program.placement.stages[index(stage)].ranks;
    for (const std::int32_t rank : ranks) {
      const auto here = reductions(rank, stage);
      const auto first = reductions(ranks.front(), stage);
      if (here == first) continue;
      return tl::unexpected(
          fmt::format("sharding: rank {} has {} backward passes of stage {} to reduce but rank {} has {}; "
                      "take a number of "
                      "microbatches that divides among the ranks of each stage, or `parallel.gather: step`",
                      ranks.front(), first, stage, rank, here));
    }
  }
  return {};
}

}  // namespace

tl::expected<Program, std::string> exchange_each_microbatch(const Program& program, std::int32_t sharding) {
  Program result = program;
  for (std::vector<Action>& actions : result.ranks) {
    std::erase_if(actions, [&](const Action& action) {
      return action.kind == ActionKind::reduce_grad && is_shared(program, action.stage);
    });
    actions = ExchangeWriter(program, std::move(actions), sharding).run();
  }
  if (auto checked = check_reductions(result); !checked) return tl::unexpected(checked.error());
  return result;
}

// Makes all ranks exchange shared stages in the same order, so that they do not wait for each other forever.

/// Returns a sharded program in which only shared stages have UNSHARD and RESHARD. A stage on a single rank
/// needs none, because this rank has all its weights. If ranks use shared stages in different orders,
/// consecutive UNSHARDs are sorted by stage. Fails if a rank gathers a stage more or less often than the
/// other ranks. Also fails if two ranks still have different orders.
tl::expected<Program, std::string> with_exchanges_of_shared_stages(Program sharded);

// A gather needs all ranks of its stage at the same time, so all ranks must gather shared stages in the same
// order (u = UNSHARD):
//
//   rank 0   0u 1u           rank 0   0u 1u
//   rank 1   1u 0u  hangs    rank 1   0u 1u  does not hang
//
// This pass runs last. Tested by sharding_test.cpp.

namespace {

/// Returns the number of UNSHARDs (gathers) of each stage in the list of a rank.
std::map<std::int32_t, std::int64_t> gathers(const std::vector<Action>& actions) {
  std::map<std::int32_t, std::int64_t> counts;
  for (const Action& action : actions) {
    if (action.kind == ActionKind::unshard) ++counts[action.stage];
  }
  return counts;
}

tl::expected<void, std::string> check_gathers(const Program& program) {
  std::vector<std::map<std::int32_t, std::int64_t>> of_rank;
  of_rank.reserve(program.ranks.size());
  for (const std::vector<Action>& actions : program.ranks) of_rank.push_back(gathers(actions));
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    const std::vector<std::int32_t>& ranks = program.placement.stages[index(stage)].ranks;
    const std::int32_t first = ranks.front();
    for (const std::int32_t rank : ranks) {
      // A gather needs all ranks of the stage. If a rank had fewer gathers, the other ranks would wait
      // forever.
      if (of_rank[index(rank)][stage] == of_rank[index(first)][stage]) continue;
      return tl::unexpected(fmt::format(
          "sharding: 3 gathers stage {} {} times on rank {} but {} times on rank {}; take a number of "
          "microbatches that divides among the ranks of each stage",
          stage, of_rank[index(first)][stage], first, of_rank[index(rank)][stage], rank));
    }
  }
  return {};
}

/// Returns the UNSHARDs and REDUCE_GRADs of the stages that both ranks hold, in the order of the list of
/// `rank`.
std::vector<Action> exchanged_together(const Program& program, std::int32_t rank, std::int32_t other) {
  std::vector<Action> exchanges;
  for (const Action& action : program.ranks[index(rank)]) {
    if (!is_collective(action.kind)) continue;
    const std::vector<std::int32_t>& ranks = program.placement.stages[index(action.stage)].ranks;
    if (std::ranges::find(ranks, other) != ranks.end()) exchanges.push_back(action);
  }
  return exchanges;
}

std::string_view verb_of(const Action& exchange, bool of_one) {
  if (exchange.kind == ActionKind::unshard) return of_one ? "gathers" : "gather";
  return of_one ? "reduces" : "reduce";
}

/// Checks that all ranks exchange shared stages in the same order. With different orders they would wait for
/// each other forever.
tl::expected<void, std::string> check_order(const Program& program) {
  std::set<std::pair<std::int32_t, std::int32_t>> seen;
  for (const StagePlacement& stage : program.placement.stages) {
    for (const std::int32_t rank : stage.ranks) {
      const std::int32_t first = stage.ranks.front();
      // Each pair of ranks is checked once, even if it shares several stages.
      if (rank == first || !seen.emplace(first, rank).second) continue;
      const std::vector<Action> here = exchanged_together(program, first, rank);
      const std::vector<Action> there = exchanged_together(program, rank, first);
      const auto [ours, theirs] = std::ranges::mismatch(here, there);
      // Both lists have equal lengths, because check_gathers() has counted the gathers, and the reductions
      // were counted when they were inserted.
      if (ours == here.end() || theirs == there.end()) continue;
      return tl::unexpected(fmt::format(
          "sharding: {} has rank {} {} stage {} where rank {} {} stage {}, so that they wait for "
          "each other; take fewer buckets or virtual stages, `parallel.gather: step` or a smaller "
          "sharding",
          program.sharding, first, verb_of(*ours, false), ours->stage, rank, verb_of(*theirs, true),
          theirs->stage));
    }
  }
  return {};
}

/// Sorts consecutive UNSHARDs by stage. Ranks that share several stages then gather them in the same order.
void sort_gathers(std::vector<Action>& actions) {
  const auto is_gather = [](const Action& action) { return action.kind == ActionKind::unshard; };
  for (auto begin = actions.begin(); begin != actions.end();) {
    begin = std::find_if(begin, actions.end(), is_gather);
    const auto end = std::find_if_not(begin, actions.end(), is_gather);
    std::ranges::sort(begin, end, {}, &Action::stage);
    begin = end;
  }
}

}  // namespace

tl::expected<Program, std::string> with_exchanges_of_shared_stages(Program sharded) {
  for (std::vector<Action>& actions : sharded.ranks) {
    // PyTorch's pass also gathers stages that only one rank holds.
    std::erase_if(actions, [&](const Action& action) {
      return gathers_or_drops(action.kind) && !is_shared(sharded, action.stage);
    });
  }
  if (auto checked = check_gathers(sharded); !checked) return tl::unexpected(checked.error());
  // If all ranks use shared stages in the same order, this order remains.
  if (check_order(sharded)) return sharded;
  for (std::vector<Action>& actions : sharded.ranks) sort_gathers(actions);
  if (auto checked = check_order(sharded); !checked) return tl::unexpected(checked.error());
  return sharded;
}

// Applies ZeRO to a program. In this example two ranks share stages 0 and 1 and have the same actions (a =
// REDUCE_GRAD, s = STEP, u = UNSHARD, r = RESHARD):
//
//   sharded 1, 2          0F 1F 1B 1a 0B 0a 1s 0s 0u 1u
//   sharded 3             0u 1u 0F 0r 1F 1r 1u 0u 1B 1a 1r 0B 0a 0r 1s 0s
//   sharded 3, by step    0u 1u 0F 1F 1B 1a 1r 0B 0a 0r 1s 0s
//
// With several microbatches, sharding 1 has one REDUCE_GRAD for each stage, after the last B. Sharding 2 and
// 3 by step also have one. Otherwise, sharding 2 and 3 have one after every B, and sharding 3 gathers weights
// around every F and B (exchange_each_microbatch()). Tested by sharding_test.cpp.

namespace {

tl::expected<void, std::string> check_updates(const Program& program) {
  if (program.update == UpdateRule::minibatch) return {};
  // A gather cannot name a weight version, so only one version may exist.
  return tl::unexpected(fmt::format(
      "sharding: {} updates its weights more than once a minibatch or keeps several versions of them, which "
      "parts of weights cannot; take a schedule with one update a minibatch, such as 1f1b",
      program.schedule));
}

/// Checks that the program reduces the gradients of shared stages. ZeRO needs this, because only a reduced
/// sum can be divided among the ranks.
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

/// Inserts UNSHARDs for ZeRO 1 and 2: one for each shared stage that the list updates. All of them come after
/// the last STEP.
void gather_behind_steps(const Program& program, std::vector<Action>& actions) {
  std::vector<Action> gathers;
  std::size_t behind = 0;
  for (std::size_t position = 0; position < actions.size(); ++position) {
    if (actions[position].kind != ActionKind::step) continue;
    behind = position + 1;
    // The STEP has updated only the rank's own part of the weights. All ranks must gather the parts before
    // the next F.
    if (is_shared(program, actions[position].stage))
      gathers.push_back({.kind = ActionKind::unshard, .stage = actions[position].stage});
  }
  // Every rank gathers in ascending order of stages, because different orders of collectives on different
  // ranks would hang.
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
    result = insert_unshard_reshard(program, {.max_active_stages = program.stage_count()});
  }
  if (!result) return result;
  result->sharding = sharding;
  if (sharding < 3) {
    for (std::vector<Action>& actions : result->ranks) gather_behind_steps(program, actions);
  }
  return sharding == 3 || each_microbatch ? with_exchanges_of_shared_stages(*std::move(result)) : result;
}

}  // namespace penstock

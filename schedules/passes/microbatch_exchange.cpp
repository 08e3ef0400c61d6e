// Under ZeRO 2 and 3 without a window, the ranks of a stage exchange its parts around each microbatch. This
// is one of two ranks that share stages 0 and 1 under sharding 3 (u = UNSHARD, a = REDUCE_GRAD, r = RESHARD).
// Sharding 2 has the same list without u and r:
//
//   0u 1u 0F0 0r 1F0 1r 1u 0u 1B0 1a 1r 0B0 0a 0r
//
// In this file, a pass is a sequence of actions with the same microbatch, direction and stage; an overlapped
// pair has several stages. It is F alone, or B, or I and W, with the R before them. Weights are gathered
// before each pass and dropped after it, even if the next pass needs them again, as in FSDP. fsdp.cpp has
// PyTorch's window. Tested by sharding_test.cpp.

#include "schedules/passes/microbatch_exchange.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// A stage, a microbatch and a direction.
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
  /// The shared stages that run in the pass with their weights.
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

/// Writes the new list of one rank.
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

  /// Gathers the stages of pass `number` and of the next passes. It stops at a pass with a stage that is
  /// gathered for an earlier pass and must be dropped first.
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
  std::map<std::int32_t, std::size_t> held_for_;  // by gathered stage: the number of the pass that needs it
  std::vector<Action> result_;
};

/// Checks that all ranks of a stage reduce it equally often, because a reduction needs all of them.
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

}  // namespace penstock

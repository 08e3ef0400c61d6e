// Checks that each stage gathers its weights and reduces its gradients at the right times. For each stage
// on each rank, two state machines read the rank's list:
//
//   weights     sharded --UNSHARD--> gathered --RESHARD--> dropped --UNSHARD--> gathered
//               (with sharding 1 and 2 they begin whole)     any --STEP--> outdated --UNSHARD--> gathered
//   gradients   none --B, W--> accumulating --REDUCE_GRAD--> reduced --STEP--> none
//               (with sharding 2 and 3 also          reduced --B, W--> accumulating: partial sums add up)
//
// F, B, I, W, R and REDUCE_GRAD need whole or gathered weights. STEP needs reduced gradients if the stage
// reduces at all. A list with STEPs is read twice, because the next iteration begins in the final state. A
// program in which no stage reduces (or gathers) is also valid: the lists then leave these actions out, for
// example with replica_sync off or in a CSV without FSDP. Tests: tests/schedules/validate_test.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "schedules/check/validate_parts.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

constexpr std::int32_t kNoStage = -1;

bool is_sharded(const Program& program, std::int32_t stage) {
  return program.sharding > 0 && is_shared(program, stage);
}

/// Two example stages for which the lists have a reduction (or a gather). `alone` is the lowest such stage
/// that a single rank holds. `shared` is the lowest such stage that several ranks hold.
struct Example {
  std::int32_t alone = kNoStage;
  std::int32_t shared = kNoStage;
};

void note(Example& example, const Program& program, std::int32_t stage) {
  // The lowest stage is taken so that the message does not depend on the order of the ranks.
  std::int32_t& first = is_shared(program, stage) ? example.shared : example.alone;
  if (first == kNoStage || stage < first) first = stage;
}

/// The stages that error messages name as examples, for reductions and for gathers.
struct Collectives {
  Example reducing;
  Example gathering;
};

/// Returns the example stages for all lists. They are needed before the lists are checked, because the list
/// of a later rank may show that an earlier rank lacks a collective.
Collectives collectives_in(const Program& program) {
  Collectives found;
  for (const std::vector<Action>& actions : program.ranks) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::reduce_grad) note(found.reducing, program, action.stage);
      if (action.kind == ActionKind::unshard) note(found.gathering, program, action.stage);
    }
  }
  return found;
}

/// Returns the reason why a stage must have a reduction (or a gather). Returns nothing if it needs none.
std::optional<std::string> obligation(const Program& program, std::int32_t stage, const Example& example) {
  if (is_sharded(program, stage)) {
    return fmt::format("its weights are sharded (`sharding {}`)", program.sharding);
  }
  const bool shared = is_shared(program, stage);
  // If a stage on a single rank has a collective, all stages must have one. If only shared stages have one,
  // stages on a single rank need none.
  const std::int32_t like = shared && example.shared != kNoStage ? example.shared : example.alone;
  if (like == kNoStage) return std::nullopt;
  return fmt::format("stage {} has one", like);
}

/// Returns true if the program has at least one gather or reduction. Most programs have none, and then the
/// lists need not be checked for them.
bool has_life(const Program& program) {
  return std::ranges::any_of(program.ranks, [](const std::vector<Action>& actions) {
    return std::ranges::any_of(actions, [](const Action& action) {
      return is_collective(action.kind) || action.kind == ActionKind::reshard;
    });
  });
}

enum class Weights : std::uint8_t { whole, sharded, gathered, dropped, outdated };
enum class Gradients : std::uint8_t { none, accumulating, reduced };

/// The state of one stage on one rank: its weights and its gradients.
struct Life {
  /// The rank to which this state belongs. The state is reset when the list of another rank is read.
  std::int32_t rank = -1;
  /// True if the stage's weights must be gathered.
  bool gathers = false;
  /// True if the stage's gradients must be reduced.
  bool reduces = false;
  Weights weights = Weights::whole;
  Gradients gradients = Gradients::none;
  /// The number of STEPs in the current iteration.
  std::int32_t steps = 0;
  /// The position of the action that brought the weights into their present state.
  std::size_t weights_since = 0;
  std::size_t gradients_since = 0;
  /// The action at position gradients_since, which brought the gradients into their present state.
  Action gradient{};
};

/// Returns the state after the action. The picture at the top of this file shows the transitions.
Life moved_on(Life life, const Action& action, std::size_t position) {
  const auto weights = [&](Weights state) {
    life.weights = state;
    life.weights_since = position;
  };
  const auto gradients = [&](Gradients state) {
    life.gradients = state;
    life.gradients_since = position;
    life.gradient = action;
  };
  if (action.kind == ActionKind::unshard) weights(Weights::gathered);
  if (action.kind == ActionKind::reshard) weights(Weights::dropped);
  if (makes_weight_gradient(action.kind)) gradients(Gradients::accumulating);
  if (action.kind == ActionKind::reduce_grad) gradients(Gradients::reduced);
  if (action.kind == ActionKind::step) {
    // The STEP updates only the rank's own part of the weights. The other parts, which were gathered before,
    // are now outdated.
    if (life.gathers) weights(Weights::outdated);
    gradients(Gradients::none);
    ++life.steps;
  }
  return life;
}

/// A rule that is broken, with the action that breaks it.
struct Breach {
  std::size_t position = 0;
  Action action;
  std::string rule;
};

/// A check of all lists. It follows the states of the weights and gradients of each stage on each rank.
class LifeWalk {
 public:
  explicit LifeWalk(const Program& program)
      : program_(program), collectives_(collectives_in(program)), lives_(program.placement.stages.size()) {}

  Checked run() {
    if (program_.sharding == 0 && !has_life(program_)) return {};
    for (std::int32_t rank = 0; rank < program_.rank_count(); ++rank) {
      if (Checked reduced = check_reductions(rank); !reduced) return reduced;
      begin(rank);
      if (Checked first = pass(rank); !first) return first;
      for (Life& life : lives_) {
        if (life.rank == rank && life.steps == 0) life = Life{};  // without a STEP, no second pass is needed
        life.steps = 0;
      }
      if (Checked second = pass(rank); !second) return second;
    }
    return {};
  }

 private:
  const std::vector<Action>& list(std::int32_t rank) const { return program_.ranks[index(rank)]; }

  /// Sets the first state of each stage in the rank's list. All ranks share one table by stage. The field
  /// `rank` shows whether an entry belongs to this rank.
  void begin(std::int32_t rank) {
    for (const Action& action : list(rank)) {
      Life& life = lives_[index(action.stage)];
      if (life.rank != rank) life = born(rank, action.stage);
      // A stage that drops its weights (RESHARD) must gather them again before it computes, even if the
      // program has no UNSHARD for other stages.
      if (action.kind == ActionKind::reshard) life.gathers = true;
    }
  }

  /// Returns the first state of a stage on a rank. Under ZeRO 1 and 2, each rank begins with whole weights.
  /// Under ZeRO 3, or if the lists contain gathers of PyTorch, no rank does.
  Life born(std::int32_t rank, std::int32_t stage) const {
    const bool whole = is_sharded(program_, stage) && program_.sharding < 3;
    return {.rank = rank,
            .gathers = gathering_obligation(stage).has_value(),
            .reduces = reducing_obligation(stage).has_value(),
            .weights = whole ? Weights::whole : Weights::sharded};
  }

  std::optional<std::string> reducing_obligation(std::int32_t stage) const {
    return obligation(program_, stage, collectives_.reducing);
  }
  std::optional<std::string> gathering_obligation(std::int32_t stage) const {
    return obligation(program_, stage, collectives_.gathering);
  }

  /// Checks that the rank has a REDUCE_GRAD for each stage with gradients that must reduce them.
  Checked check_reductions(std::int32_t rank) const {
    std::vector<bool> makes(lives_.size(), false);
    std::vector<bool> reduces(lives_.size(), false);
    for (const Action& action : list(rank)) {
      if (makes_weight_gradient(action.kind)) makes[index(action.stage)] = true;
      if (action.kind == ActionKind::reduce_grad) reduces[index(action.stage)] = true;
    }
    for (std::int32_t stage = 0; stage < program_.stage_count(); ++stage) {
      if (!makes[index(stage)] || reduces[index(stage)]) continue;
      const auto why = reducing_obligation(stage);
      if (!why) continue;
      return missing_at(
          program_, rank,
          fmt::format("{}REDUCE_GRAD is missing, must come after the stage's last B or W; {}", stage, *why));
    }
    return {};
  }

  /// Reads the rank's list once and checks it. The stages begin in the states that the previous reading of
  /// the list left.
  Checked pass(std::int32_t rank) {
    const std::vector<Action>& actions = list(rank);
    for (std::size_t position = 0; position < actions.size(); ++position) {
      Life& life = lives_[index(actions[position].stage)];
      if (life.rank != rank) continue;
      auto breach = breach_of_weights(life, actions[position], position);
      if (!breach) breach = breach_of_gradients(life, actions[position], position);
      if (breach) return broken_at(program_, rank, breach->position, breach->action, breach->rule);
      life = moved_on(life, actions[position], position);
    }
    return {};
  }

  std::optional<Breach> breach_of_weights(const Life& life, const Action& action,
                                          std::size_t position) const {
    if (!life.gathers) return std::nullopt;
    const auto breach = [&](std::string rule) {
      return Breach{.position = position, .action = action, .rule = std::move(rule)};
    };
    const bool uses = has_weight_version(action.kind);
    const std::int32_t stage = action.stage;
    switch (life.weights) {
      case Weights::whole:
        return std::nullopt;
      case Weights::gathered:
        if (action.kind != ActionKind::unshard) return std::nullopt;
        return breach(fmt::format(
            "comes a second time (before at position {}), must come after {}RESHARD or {}STEP; delete one",
            life.weights_since, stage, stage));
      case Weights::sharded:
        if (uses) return breach(ungathered(life.rank, stage));
        if (action.kind != ActionKind::reshard) return std::nullopt;
        return breach(fmt::format("drops weights that are not gathered, must come after {}UNSHARD", stage));
      case Weights::dropped:
        if (uses) {
          return breach(fmt::format(
              "runs after {0}RESHARD dropped the weights, must come after a new {0}UNSHARD", stage));
        }
        if (action.kind == ActionKind::reshard) {
          return breach(fmt::format(
              "comes a second time (before at position {}), must come after a new {}UNSHARD; delete one",
              life.weights_since, stage));
        }
        if (action.kind != ActionKind::reduce_grad) return std::nullopt;
        return breach(fmt::format(
            "comes after {}RESHARD (position {}), must come before it, while the gathered weights hold the "
            "gradients that it reduces",
            stage, life.weights_since));
      case Weights::outdated:
        // An older version is a separate copy, and the STEP does not change it.
        if (!uses || action.weight_version < life.steps) return std::nullopt;
        return breach(
            fmt::format("runs after {0}STEP (position {1}) updated this rank's part of the weights alone, "
                        "must come after a new {0}UNSHARD",
                        stage, life.weights_since));
    }
    return std::nullopt;
  }

  /// Returns the reason why `stage` may not run yet. Either its UNSHARD comes later, or it has no UNSHARD
  /// but needs one.
  std::string ungathered(std::int32_t rank, std::int32_t stage) const {
    const std::vector<Action>& actions = list(rank);
    for (std::size_t position = 0; position < actions.size(); ++position) {
      if (actions[position].kind == ActionKind::unshard && actions[position].stage == stage) {
        return fmt::format("runs before {}UNSHARD (position {}) gathers the weights, must come after it",
                           stage, position);
      }
    }
    return fmt::format("runs with weights that no {0}UNSHARD gathers, must come after one; {1}", stage,
                       gathering_obligation(stage).value_or(fmt::format("{}RESHARD drops them", stage)));
  }

  /// Returns true if each rank stores only its part of a reduced sum. Another reduction can then add to
  /// this part.
  bool adds_reductions(std::int32_t stage) const {
    return program_.sharding > 1 && is_sharded(program_, stage);
  }

  std::optional<Breach> breach_of_gradients(const Life& life, const Action& action,
                                            std::size_t position) const {
    if (!life.reduces) return std::nullopt;
    const std::int32_t stage = action.stage;
    const bool is_reduced = life.gradients == Gradients::reduced;
    // This B or W is correct, but the earlier reduction came too early. The report names the reduction.
    if (makes_weight_gradient(action.kind) && is_reduced && !adds_reductions(stage)) {
      return Breach{.position = life.gradients_since,
                    .action = life.gradient,
                    .rule = fmt::format("comes before {} (position {}), whose gradient it leaves out; must "
                                        "come after the last B or W of the stage before its STEP",
                                        to_text(action), position)};
    }
    if (action.kind == ActionKind::reduce_grad && is_reduced) {
      return Breach{.position = position,
                    .action = action,
                    .rule = fmt::format("comes a second time (before at position {}), must come once before "
                                        "{}STEP; delete one",
                                        life.gradients_since, stage)};
    }
    if (action.kind == ActionKind::step && life.gradients == Gradients::accumulating) {
      return Breach{.position = position,
                    .action = action,
                    .rule = fmt::format("comes before the gradient of {} (position {}) is reduced, must come "
                                        "after {}REDUCE_GRAD",
                                        to_text(life.gradient), life.gradients_since, stage)};
    }
    return std::nullopt;
  }

  const Program& program_;
  Collectives collectives_;
  std::vector<Life> lives_;  // state of each stage
};

}  // namespace

Checked check_stage_lives(const Program& program) { return LifeWalk(program).run(); }

}  // namespace penstock

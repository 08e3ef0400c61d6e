// The life of a stage on each rank that holds it: two small state machines, moved on by the rank's list.
//
//   weights     sharded --UNSHARD--> gathered --RESHARD--> dropped --UNSHARD--> gathered
//               (with sharding 1 and 2 they begin whole)     any --STEP--> outdated --UNSHARD--> gathered
//   gradients   none --B, W--> accumulating --REDUCE_GRAD--> reduced --STEP--> none
//               (with sharding 2 and 3 also          reduced --B, W--> accumulating: parts of sums add up)
//
// F, B, I, W, R and REDUCE_GRAD want weights that are whole or gathered; STEP wants gradients that are
// reduced where the stage reduces at all. A list with STEPs is walked twice, since the next iteration goes on
// where it ended. What a form leaves out is no fault: a program where no stage of a kind reduces, or gathers,
// does so out of sight (replica_sync off; a CSV without FSDP).

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

/// A stage that shows that stages reduce, or gather: the first one alone on its rank, the first shared one.
struct Example {
  std::int32_t alone = kNoStage;
  std::int32_t shared = kNoStage;
};

void note(Example& example, const Program& program, std::int32_t stage) {
  // The lowest stage, so that the message does not depend on which rank comes first.
  std::int32_t& first = is_shared(program, stage) ? example.shared : example.alone;
  if (first == kNoStage || stage < first) first = stage;
}

/// What the lists show of all stages.
struct Customs {
  Example reducing;
  Example gathering;
};

/// Gathered first, since a later rank's list may show that an earlier one has left something out.
Customs customs_of(const Program& program) {
  Customs customs;
  for (const std::vector<Action>& actions : program.ranks) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::reduce_grad) note(customs.reducing, program, action.stage);
      if (action.kind == ActionKind::unshard) note(customs.gathering, program, action.stage);
    }
  }
  return customs;
}

/// Why a stage has to reduce or gather; nothing when it need not.
std::optional<std::string> duty(const Program& program, std::int32_t stage, const Example& example) {
  if (is_sharded(program, stage)) {
    return fmt::format("its weights are sharded (`sharding {}`)", program.sharding);
  }
  const bool shared = is_shared(program, stage);
  // What a stage alone on its rank does, all have to do; what only shared stages do says nothing of the
  // others.
  const std::int32_t like = shared && example.shared != kNoStage ? example.shared : example.alone;
  if (like == kNoStage) return std::nullopt;
  return fmt::format("stage {} has one", like);
}

/// Most programs say nothing of all this, and are not walked.
bool has_life(const Program& program) {
  return std::ranges::any_of(program.ranks, [](const std::vector<Action>& actions) {
    return std::ranges::any_of(actions, [](const Action& action) {
      return is_collective(action.kind) || action.kind == ActionKind::reshard;
    });
  });
}

enum class Weights : std::uint8_t { whole, sharded, gathered, dropped, outdated };
enum class Gradients : std::uint8_t { none, accumulating, reduced };

/// Where one stage is in its life on one rank.
struct Life {
  std::int32_t rank = -1;  ///< the rank that the rest is about; another one starts afresh
  bool gathers = false;    ///< its weights are of interest
  bool reduces = false;    ///< its gradients are
  Weights weights = Weights::whole;
  Gradients gradients = Gradients::none;
  std::int32_t steps = 0;         ///< of this pass
  std::size_t weights_since = 0;  ///< position of the action that led to `weights`
  std::size_t gradients_since = 0;
  Action gradient{};  ///< the action at gradients_since
};

/// The life behind the action: the arrows of the picture above.
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
    // The rank has updated its own part of the weights; what it gathered of the others is that of before.
    if (life.gathers) weights(Weights::outdated);
    gradients(Gradients::none);
    ++life.steps;
  }
  return life;
}

/// A rule that `action`, or one before it, breaks.
struct Breach {
  std::size_t position = 0;
  Action action;
  std::string rule;
};

/// The walk over the lists of all ranks.
class LifeWalk {
 public:
  explicit LifeWalk(const Program& program)
      : program_(program), customs_(customs_of(program)), lives_(program.placement.stages.size()) {}

  Checked run() {
    if (program_.sharding == 0 && !has_life(program_)) return {};
    for (std::int32_t rank = 0; rank < program_.rank_count(); ++rank) {
      if (Checked reduced = check_reductions(rank); !reduced) return reduced;
      begin(rank);
      if (Checked first = pass(rank); !first) return first;
      for (Life& life : lives_) {
        if (life.rank == rank && life.steps == 0) life = Life{};  // of no interest to the second pass
        life.steps = 0;
      }
      if (Checked second = pass(rank); !second) return second;
    }
    return {};
  }

 private:
  const std::vector<Action>& list(std::int32_t rank) const { return program_.ranks[index(rank)]; }

  /// Brings the stages that the rank's list speaks of into the world. Entries are found by stage and not by
  /// rank and stage: the rank that an entry is of says whether it is this one's.
  void begin(std::int32_t rank) {
    for (const Action& action : list(rank)) {
      Life& life = lives_[index(action.stage)];
      if (life.rank != rank) life = born(rank, action.stage);
      // Whoever drops weights must gather them again, even where nothing else says that stages gather.
      if (action.kind == ActionKind::reshard) life.gathers = true;
    }
  }

  /// ZeRO 1 and 2 keep whole weights on every rank; under 3, and where a list of PyTorch's gathers, none has
  /// them.
  Life born(std::int32_t rank, std::int32_t stage) const {
    const bool whole = is_sharded(program_, stage) && program_.sharding < 3;
    return {.rank = rank,
            .gathers = gathering_duty(stage).has_value(),
            .reduces = reducing_duty(stage).has_value(),
            .weights = whole ? Weights::whole : Weights::sharded};
  }

  std::optional<std::string> reducing_duty(std::int32_t stage) const {
    return duty(program_, stage, customs_.reducing);
  }
  std::optional<std::string> gathering_duty(std::int32_t stage) const {
    return duty(program_, stage, customs_.gathering);
  }

  /// Every stage with gradients on the rank has a REDUCE_GRAD there, if it has to have one.
  Checked check_reductions(std::int32_t rank) const {
    std::vector<bool> makes(lives_.size(), false);
    std::vector<bool> reduces(lives_.size(), false);
    for (const Action& action : list(rank)) {
      if (makes_weight_gradient(action.kind)) makes[index(action.stage)] = true;
      if (action.kind == ActionKind::reduce_grad) reduces[index(action.stage)] = true;
    }
    for (std::int32_t stage = 0; stage < program_.stage_count(); ++stage) {
      if (!makes[index(stage)] || reduces[index(stage)]) continue;
      const auto why = reducing_duty(stage);
      if (!why) continue;
      return missing_at(
          program_, rank,
          fmt::format("{}REDUCE_GRAD is missing, must come after the stage's last B or W; {}", stage, *why));
    }
    return {};
  }

  /// One time through the rank's list, from the states in which its stages are.
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
        // An older version is a copy of its own.
        if (!uses || action.weight_version < life.steps) return std::nullopt;
        return breach(
            fmt::format("runs after {0}STEP (position {1}) updated this rank's part of the weights alone, "
                        "must come after a new {0}UNSHARD",
                        stage, life.weights_since));
    }
    return std::nullopt;
  }

  /// Why `stage` must not run yet: where its UNSHARD is, or what makes one necessary.
  std::string ungathered(std::int32_t rank, std::int32_t stage) const {
    const std::vector<Action>& actions = list(rank);
    for (std::size_t position = 0; position < actions.size(); ++position) {
      if (actions[position].kind == ActionKind::unshard && actions[position].stage == stage) {
        return fmt::format("runs before {}UNSHARD (position {}) gathers the weights, must come after it",
                           stage, position);
      }
    }
    return fmt::format("runs with weights that no {0}UNSHARD gathers, must come after one; {1}", stage,
                       gathering_duty(stage).value_or(fmt::format("{}RESHARD drops them", stage)));
  }

  /// Returns true if each rank keeps its part of a reduced sum, to which another reduction may add.
  bool adds_reductions(std::int32_t stage) const {
    return program_.sharding > 1 && is_sharded(program_, stage);
  }

  std::optional<Breach> breach_of_gradients(const Life& life, const Action& action,
                                            std::size_t position) const {
    if (!life.reduces) return std::nullopt;
    const std::int32_t stage = action.stage;
    const bool is_reduced = life.gradients == Gradients::reduced;
    // This B or W is right; the reduction before it came too early, and is what is shown.
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
  Customs customs_;
  std::vector<Life> lives_;  // by stage
};

}  // namespace

Checked check_stage_lives(const Program& program) { return LifeWalk(program).run(); }

}  // namespace penstock

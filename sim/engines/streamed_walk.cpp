// Computes the times of a program whose lists are stored as loops. Placement rounds (take_turns.hpp) place
// the actions of all ranks, and cursors read the actions from the loops. Each action or message waits only
// for actions and messages that were placed before, so its time is computed at once. The walk stores one
// clock for each rank and each queue, the messages in flight, and the memory of each rank:
//
//   start = max(clock, arrivals)          end = start + duration          clock = end
//   leaves = max(end, both queues)        queues = leaves + hold          arrives = leaves + hold + latency
//
// The order of the placement rounds does not depend on times, so cursors and messages in flight soon return
// to an earlier state. The walk is a max-plus map of its times (Baccelli et al., Synchronization and
// Linearity, 1992, chapter 3). If all times have moved by one amount between two equal states, everything
// repeats. repeat.hpp searches for such states. The walk then jumps over the repetitions.

#include "sim/engines/streamed_walk.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/take_turns.hpp"
#include "schedules/passes/turn_state.hpp"
#include "sim/engines/rank_ledger.hpp"
#include "sim/engines/repeat.hpp"
#include "sim/engines/steady_state.hpp"
#include "sim/engines/stream_state.hpp"
#include "sim/network/message_costs.hpp"
#include "topology/collective.hpp"

namespace penstock {
namespace {

constexpr Ns kNever = std::numeric_limits<Ns>::max();

/// The values that a walk computes: all figures of the run, or only the times of clocks, queues and messages.
enum class Followed : std::uint8_t { figures, clocks_alone };

/// A run that is computed while TurnTaking places actions and messages in rounds, without stored lists or
/// spans. RepeatSearch compares its states between the rounds. show() passes to a visitor all data on which
/// the rest of the run depends.
template <Followed kFollowed>
class StreamedWalk {
 public:
  StreamedWalk(const Experiment& experiment, std::span<const ActionLoops> lists, Jumps jumps)
      : experiment_(experiment),
        program_(experiment.program),
        lists_(lists),
        heads_(lists),
        in_flight_(program_),
        ways_(experiment, in_flight_.edges()),
        rings_(experiment),
        durations_(program_.placement.stages.size()),
        ranks_(lists.size()),
        held_stages_(program_, heads_),
        jumps_(jumps) {
    for (std::int32_t stage = 0; stage < program_.stage_count(); ++stage) price(stage);
    for (RankState& rank : ranks_) rank.meter = RankMeter(program_);
    if constexpr (kWithFigures) {
      find_senders();
      open_accounts();
    }
  }

  tl::expected<StreamedRun, std::string> run() && {
    if (auto passed = pass(); !passed) return tl::unexpected(std::move(passed.error()));
    return std::move(*this).figures();
  }

  /// Runs passes over the program. Each pass starts from the clocks and queues at the end of the previous
  /// one. Returns the period as soon as the clocks and queues after two passes differ only by a common
  /// amount. Returns nothing if a limit is reached first.
  std::optional<Period> period() && {
    std::vector<KeptState> left;
    std::vector<Ns> clocks;
    while (std::ssize(left) < kMostPasses && (left.size() < 2 || actions() - jumped_ <= kMostWalked)) {
      if (!left.empty()) begin_again();
      if (!pass()) return std::nullopt;
      KeepState state;
      show(state);
      // The latest pass is compared first, so the shortest period is found. Each pass counts microbatches
      // from 0, so only times may differ.
      for (std::size_t back = 1; back <= left.size(); ++back) {
        const StateShift shift{.time_ns = clock_ns(0) - clocks[clocks.size() - back]};
        CompareState earlier(left[left.size() - back], shift);
        show(earlier);
        if (earlier.alike()) {
          return Period{.period_ns = shift.time_ns,
                        .microbatches = static_cast<std::int64_t>(back) * program_.microbatches};
        }
      }
      left.push_back(std::move(state).kept());
      clocks.push_back(clock_ns(0));
    }
    return std::nullopt;
  }

  // --- calls from TurnTaking ----------------------------------------------------------------------------

  void compute(std::int32_t rank, std::span<const Action> group) {
    RankState& here = ranks_[index(rank)];
    if constexpr (kWithFigures) {
      // settle() applies the memory changes that are earlier than the ranks' clocks. Changes of this group
      // may begin at the rank's clock, so settle() must be called before the group is added.
      if (accounts_[index(rank)].held().is_full()) settle(rank);
    }
    take_in(rank, group);
    Ns start = here.clock_ns;
    for (const Interval& interval : awaited_) start = std::max(start, interval.end_ns);
    const Ns duration =
        group.size() == 1
            ? durations_[index(group.front().stage)][static_cast<std::size_t>(group.front().kind)]
            : group_duration_ns(experiment_.costs, group);
    here.clock_ns = start + duration;
    here.actions += std::ssize(group);
    if constexpr (kWithFigures) {
      here.meter.compute(group, start, here.clock_ns,
                         [&](Ns from, Ns to) { return covered(awaited_, from, to); });
      account(rank, group, start);
    }
  }

  void message(const StageMessage& message, std::int32_t from_rank, std::int32_t to_rank) {
    TransferWay& way = ways_.way_of(message, in_flight_.latest_way(), from_rank, to_rank);
    const Ns produced = ranks_[index(from_rank)].clock_ns;
    const Ns start = ways_.start(way, produced);
    const Ns arrival = start + way.hold_ns + way.latency_ns;
    ++way.messages;
    last_end_ns_ = std::max(last_end_ns_, arrival);
    in_flight_.latest() = {.unit = message.microbatch,
                           .between_ranks = true,
                           .start_ns = start,
                           .arrival_ns = arrival,
                           .bytes = way.bytes};
    // Both positions increase even if the message has no bytes, because they are positions in the lowered
    // lists. They decide which of several peaks at one instant comes first.
    const std::int64_t sent_at = ranks_[index(from_rank)].position++;
    const std::int64_t received_at = ranks_[index(to_rank)].position++;
    if (!kWithFigures || way.bytes == 0) return;
    ranks_[index(from_rank)].meter.send(way.bytes);
    ranks_[index(to_rank)].meter.receive(way.bytes);
    accounts_[index(from_rank)].send(send_of(message), way.bytes, produced, arrival, sent_at);
    accounts_[index(to_rank)].receive(recv_of(message), way.bytes, start, received_at);
  }

  void collective(std::int32_t rank, const Action& action) {
    const RankState& here = ranks_[index(rank)];
    // TurnTaking passes all members of a collective one after the other, so only one collective is incomplete
    // at a time.
    gathering_.members.push_back(rank);
    gathering_.start_ns = std::max({gathering_.start_ns, here.clock_ns, here.collectives_ns});
    if (gathering_.members.size() < program_.placement.stages[index(action.stage)].ranks.size()) return;
    const Ns end = gathering_.start_ns + rings_.of(action).cost.duration_ns;
    for (const std::int32_t member : gathering_.members)
      join(member, action, {.start_ns = gathering_.start_ns, .end_ns = end});
    last_end_ns_ = std::max(last_end_ns_, end);
    gathering_ = {};
  }

  void round(const RankSet& next) {
    if (jumps_ == Jumps::left_out) return;
    const auto jump = repeat_.look(*this, next.words());
    if (!jump) {
      gives_up_ = !period_ && repeat_.kept_actions() > most_without_period_;
      return;
    }
    // Each cursor skips its repetitions. All other state has changed by some amount since the stored moment.
    // This amount is added once for each skipped repetition.
    period_ = jump->shift;
    for (std::int32_t rank = 0; rank < program_.rank_count(); ++rank) {
      const CursorMove& move = jump->moves[index(rank)];
      heads_.skip(rank, static_cast<std::int32_t>(jump->times * move.inner),
                  static_cast<std::int32_t>(jump->times * move.outer));
    }
    AdvanceState advance(*jump->kept, jump->shift, jump->times);
    show(advance);
    jumped_ += jump->times * jump->actions;
  }

  /// Returns true if the walk has found no repetition before its limit. It would then have to process every
  /// action of a long run.
  bool gives_up() const { return gives_up_; }

  // --- calls from RepeatSearch --------------------------------------------------------------------------

  std::int32_t rank_count() const { return program_.rank_count(); }
  Ns clock_ns(std::int32_t rank) const { return ranks_[index(rank)].clock_ns; }
  const LoopCursor& cursor(std::int32_t rank) const { return heads_.cursor(rank); }
  std::int64_t actions() const {
    std::int64_t sum = 0;
    for (const RankState& rank : ranks_) sum += rank.actions;
    return sum;
  }
  /// Returns true if two microbatches always use the same ranks if their numbers differ by `units`.
  bool routes_repeat(std::int32_t units) const {
    return std::ranges::all_of(program_.placement.stages, [&](const StagePlacement& stage) {
      return units % static_cast<std::int32_t>(stage.route.size()) == 0;
    });
  }
  /// Returns true if the run must know which weight versions later actions of the lists use.
  bool reads_ahead() const {
    return kWithFigures && program_.update != UpdateRule::minibatch && !program_.mixed_versions;
  }
  void settle_all() {
    if constexpr (!kWithFigures) return;
    for (std::int32_t rank = 0; rank < program_.rank_count(); ++rank) settle(rank);
  }

  template <class State>
  void show(State& state) {
    in_flight_.show(state);  // passed first, because states that differ usually differ in these messages
    if (!state.goes_on()) return;
    // The queues come before the clocks. The reason is that the clocks decide which queue times have an
    // effect, and that the code below changes the clocks if `state` is an AdvanceState.
    ways_.show(state, [&](std::int32_t rank) { return clock_ns(rank); });
    for (std::size_t rank = 0; rank < ranks_.size() && state.goes_on(); ++rank) {
      RankState& here = ranks_[rank];
      if constexpr (kWithFigures) accounts_[rank].show(state, here.clock_ns);
      show_unless_past(state, here.collectives_ns, here.clock_ns);
    }
    // No STEP waits for a reduction that has ended before its rank's clock, so such a reduction has no
    // effect.
    held_stages_.for_each([&](std::int32_t /*stage*/, HeldStage& held) {
      state.count(held.reductions);
      if (!state.flag(held.reduction.end_ns > clock_ns(held.rank))) return;
      state.time(held.reduction.start_ns);
      state.time(held.reduction.end_ns);
    });
    for (RankState& here : ranks_) {
      state.time(here.clock_ns);
      state.count(here.position);
      state.count(here.actions);
      if constexpr (kWithFigures) here.meter.show(state);
    }
  }

 private:
  static constexpr bool kWithFigures = kFollowed == Followed::figures;
  // These limits are similar to those of period_of_repetitions() (steady_state.cpp). Only actions that the
  // walk has placed one by one count, because jumps cost little.
  static constexpr std::int64_t kMostPasses = 64;
  static constexpr std::int64_t kMostWalked = 1 << 22;  // limit of the actions; it applies after two passes

  // --- passes -----------------------------------------------------------------------------------------

  tl::expected<void, std::string> pass() {
    TurnsTaken taken = TurnTaking(program_, heads_, in_flight_, *this).run();
    if (gives_up_) {
      return tl::unexpected(
          fmt::format("their times do not repeat within the first {:.3g}", static_cast<double>(actions())));
    }
    if (!taken.finished || !taken.stuck.empty()) return tl::unexpected(std::move(taken.stuck));
    return {};
  }

  void begin_again() {
    heads_ = LoopHeads(lists_);
    in_flight_.clear();
    repeat_ = {};
    if (!program_.barrier) return;
    const Ns latest = std::ranges::max(ranks_, {}, &RankState::clock_ns).clock_ns;
    for (RankState& rank : ranks_) rank.clock_ns = latest;
  }

  /// Returns the number of actions after which a streamed walk gives up if it has found no repetition. 1F1B
  /// repeats after 2 K^2 actions on K ranks, and interleaved schedules repeat later. A run of at most 2^24
  /// actions takes only seconds, so it is always completed.
  static std::int64_t most_without_period(std::span<const ActionLoops> lists) {
    constexpr std::int64_t kWalkedWhole = 1 << 24;
    std::int64_t all = 0;
    for (const ActionLoops& list : lists) all += list.size();
    if (all <= kWalkedWhole) return std::numeric_limits<std::int64_t>::max();
    const auto ranks = static_cast<std::int64_t>(lists.size());
    return (1 << 22) + 32 * ranks * ranks;
  }

  // --- set up -----------------------------------------------------------------------------------------

  void price(std::int32_t stage) {
    for (std::size_t kind = 0; kind < kActionKindCount; ++kind) {
      const auto here = static_cast<ActionKind>(kind);
      // The table replaces a switch over kinds at every action. It needs no microbatch, because all
      // microbatches have equal costs.
      durations_[index(stage)][kind] =
          is_compute(here) ? duration_ns(experiment_.costs.stages[index(stage)], here) : 0;
    }
  }

  void find_senders() {
    for (const StageEdge& edge : in_flight_.edges().edges()) {
      // A replica exchanges messages only with those replicas that process the same microbatches.
      const std::vector<std::int32_t>& from = program_.placement.stages[index(edge.from)].route;
      const std::vector<std::int32_t>& to = program_.placement.stages[index(edge.to)].route;
      const std::size_t units = std::lcm(from.size(), to.size());
      for (std::size_t unit = 0; unit < units; ++unit) {
        const auto microbatch = static_cast<std::int32_t>(unit);
        const std::int32_t sender = program_.placement.rank_of(edge.from, microbatch);
        const std::int32_t receiver = program_.placement.rank_of(edge.to, microbatch);
        ranks_[index(sender)].senders.push_back(receiver);
        ranks_[index(receiver)].senders.push_back(sender);
      }
    }
    for (RankState& rank : ranks_) {
      std::ranges::sort(rank.senders);
      const auto twice = std::ranges::unique(rank.senders);
      rank.senders.erase(twice.begin(), twice.end());
    }
  }

  void open_accounts() {
    const std::vector<std::vector<std::int32_t>> stages = stages_by_rank(program_.placement, ranks_.size());
    const std::vector<TellingOrder> orders = telling_orders(experiment_, lists_);
    accounts_.reserve(stages.size());
    for (std::size_t rank = 0; rank < stages.size(); ++rank)
      accounts_.emplace_back(stages[rank], experiment_.costs, orders[rank]);
  }

  // --- computing --------------------------------------------------------------------------------------

  void take_in(std::int32_t rank, std::span<const Action> group) {
    awaited_.clear();
    taken_.clear();
    for (std::size_t leaf = 0; leaf < group.size(); ++leaf) {
      const Action& action = group[leaf];
      in_flight_.take_in(action, [&](const MessageInFlight& message) {
        if (!message.between_ranks) return;
        awaited_.push_back({.start_ns = message.start_ns, .end_ns = message.arrival_ns});
        if (message.bytes > 0) taken_.push_back({.leaf = leaf, .message = message});
      });
      // A reduction that does not exist or has ended has an end before the clock, so it delays nothing.
      if (action.kind == ActionKind::step) awaited_.push_back(held_stages_.at(action.stage, rank).reduction);
    }
  }

  void account(std::int32_t rank, std::span<const Action> group, Ns start) {
    RankState& here = ranks_[index(rank)];
    // The cursor is still at this group, so LaterForwards must skip the actions of the group.
    const LaterForwards later{program_, heads_, held_stages_, rank, group.size()};
    for (std::size_t leaf = 0; leaf < group.size(); ++leaf) {
      const PlacedAction placed{.action = group[leaf],
                                .cost = experiment_.costs.stage_of(group[leaf]),
                                .start_ns = start,
                                .end_ns = here.clock_ns,
                                .position = here.position++};
      accounts_[index(rank)].compute(placed, later);
      // The action that receives a message also releases the message's buffer.
      for (const Taken& taken : taken_) {
        if (taken.leaf == leaf)
          accounts_[index(rank)].received(placed, taken.message.bytes, taken.message.start_ns);
      }
    }
  }

  void join(std::int32_t rank, const Action& action, const Interval& interval) {
    RankState& here = ranks_[index(rank)];
    here.collectives_ns = interval.end_ns;
    HeldStage& stage = held_stages_.at(action.stage, rank);
    stage.reduction = interval;
    ++stage.reductions;
    const std::int64_t position = here.position++;
    if constexpr (kWithFigures) {
      here.meter.exchange(ring_bytes(program_, experiment_.costs, action));
      accounts_[index(rank)].reduce({.action = action,
                                     .cost = experiment_.costs.stage_of(action),
                                     .start_ns = interval.start_ns,
                                     .end_ns = interval.end_ns,
                                     .position = position});
    }
  }

  // --- memory -------------------------------------------------------------------------------------------

  bool is_finished(std::int32_t rank) const { return heads_.group(rank).empty(); }

  /// Applies those memory changes of a rank that are final. They are earlier than the rank's own clock, and
  /// earlier than the clocks of all ranks with which it exchanges messages. No earlier change can follow.
  void settle(std::int32_t rank) {
    Ns before = is_finished(rank) ? kNever : clock_ns(rank);
    for (const std::int32_t sender : ranks_[index(rank)].senders) {
      if (!is_finished(sender)) before = std::min(before, clock_ns(sender));
    }
    accounts_[index(rank)].held().settle(before);
  }

  // --- the end ----------------------------------------------------------------------------------------

  StreamedRun figures() && {
    StreamedRun run;
    run.jumped = jumped_;
    // `last_end_ns_` is also correct if the walk has jumped. No jump passes the last repetition of a loop, so
    // the walk itself has placed the last message.
    run.makespan_ns = last_end_ns_;
    for (const RankState& rank : ranks_) run.makespan_ns = std::max(run.makespan_ns, rank.clock_ns);
    for (std::int32_t rank = 0; rank < program_.rank_count(); ++rank) {
      run.ranks.push_back(figures_of_rank(rank, run.makespan_ns));
    }
    add_traffic(run);
    run.actions = actions() - jumped_;
    if (period_) {
      run.period_ns = period_->time_ns;
      run.period_microbatches = std::abs(period_->units) / program_.slices;
    }
    return run;
  }

  RankFigures figures_of_rank(std::int32_t rank, Ns makespan_ns) {
    RankFigures figures = figures_of(ranks_[index(rank)].meter);
    figures.report.rank = rank;
    figures.report.idle_ns = makespan_ns - figures.report.busy_ns;
    RankLedger& account = accounts_[index(rank)];
    account.held().settle(kNever);
    figures.report.weight_versions = account.peak_weight_versions();
    figures.report.memory = account.held().memory();
    return figures;
  }

  void add_traffic(StreamedRun& run) {
    ways_.for_each([&](const TransferWay& way) {
      const Bytes bytes = way.messages * way.bytes;
      run.traffic.push_back({.from_rank = way.from_rank, .to_rank = way.to_rank, .bytes = bytes});
      run.messages += way.messages;
    });
    held_stages_.for_each([&](std::int32_t stage, const HeldStage& held) {
      if (held.reductions > 0) add_reductions(run, stage, held);
    });
  }

  void add_reductions(StreamedRun& run, std::int32_t stage, const HeldStage& held) {
    const Action reduction{.kind = ActionKind::reduce_grad, .stage = stage};
    for (const RingHop& hop : rings_.of(reduction).sent_by(held.rank)) {
      run.traffic.push_back({.from_rank = hop.from, .to_rank = hop.to, .bytes = held.reductions * hop.bytes});
    }
  }

  struct Taken {
    std::size_t leaf = 0;
    MessageInFlight message;
  };

  const Experiment& experiment_;
  const Program& program_;
  std::span<const ActionLoops> lists_;
  LoopHeads heads_;
  MessagesInFlight in_flight_;
  TransferWays ways_;
  CollectiveRings rings_;
  std::vector<std::array<Ns, kActionKindCount>> durations_;  // durations by stage and kind
  std::vector<RankState> ranks_;
  std::vector<RankLedger> accounts_;  // memory of each rank
  HeldStages held_stages_;
  Gathering gathering_;
  Ns last_end_ns_ = 0;             // latest end of a message or collective
  std::vector<Interval> awaited_;  // transfers and reductions for which the current group waits
  std::vector<Taken> taken_;
  Jumps jumps_;
  RepeatSearch repeat_;
  std::optional<StateShift> period_;
  std::int64_t most_without_period_ = most_without_period(lists_);
  bool gives_up_ = false;
  std::int64_t jumped_ = 0;
};

}  // namespace

tl::expected<StreamedRun, std::string> stream(const Experiment& experiment,
                                              std::span<const ActionLoops> lists, Jumps jumps) {
  return StreamedWalk<Followed::figures>(experiment, lists, jumps).run();
}

std::optional<Period> streamed_period(const Experiment& experiment, std::span<const ActionLoops> lists) {
  return StreamedWalk<Followed::clocks_alone>(experiment, lists, Jumps::taken).period();
}

}  // namespace penstock

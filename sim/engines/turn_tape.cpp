// Compiles a program to a tape without making lists of its messages. The lists contain only compute
// actions. Use compile.cpp for a flat program, whose lists contain messages.
//
// Placement rounds place each action after all actions and messages for which it waits, and place the
// messages of each queue in the order of the queue. So each instruction is written when its action or message
// is placed:
//
//   turn of rank 0: 0F0      x = max(clock 0) + F; queue 0>1 and a new register take its arrival
//   turn of rank 1: 1F0      x = max(clock 1, that register) + F; the register is free again
//
// A table (HandedRegisters) stores the register with the arrival of each message until an action receives the
// message. It is indexed by edge, flow and microbatch. The start of a collective is collected in a register,
// from the clocks of its members and the ends of their previous collectives. The same register then has the
// end of the collective, until no later collective or action can need it. Tests: tests/sim/turn_run_test.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/take_turns.hpp"
#include "schedules/passes/turn_state.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"
#include "sim/engines/tape_writer.hpp"

namespace penstock {

namespace {

/// A record of the outputs (activations and gradients) that exist, with the members of HandedOver. For an
/// output that goes to another rank, it also has the register with the arrival time.
class HandedRegisters {
 public:
  explicit HandedRegisters(const Program& program)
      : ways_(program), units_(index(program.unit_count())), there_(ways_.count() * units_, kNowhere) {}

  std::optional<std::int32_t> missing_giver(const Action& action) const {
    for (const ActionWay& way : ways_.taken_by(action)) {
      if (there_[place_of(way, action)] == kNowhere) return way.stage;
    }
    return std::nullopt;
  }

  template <class See>
  void hand_on(const Action& action, const See& see) {
    for (const ActionWay& way : ways_.given_by(action)) {
      newest_way_ = way.number;
      newest_ = place_of(way, action);
      there_[newest_] = kOnRank;
      see(way);
    }
  }

  /// Records that the newest output goes to another rank. `arrival` is the register with the time of its
  /// arrival.
  void newest_arrives(Register arrival) { there_[newest_] = arrival; }
  /// Returns the number of the newest output's edge and direction (ActionWay), which is below way_count().
  std::size_t newest_way() const { return newest_way_; }
  std::size_t way_count() const { return ways_.count(); }

  /// Calls `use` with the arrival register of each input that comes from another rank. Passes each register
  /// only once.
  template <class Use>
  void take_in(const Action& action, const Use& use) {
    for (const ActionWay& way : ways_.taken_by(action)) {
      Register& there = there_[place_of(way, action)];
      if (there >= kOnRank) continue;
      use(std::exchange(there, kOnRank));
    }
  }
  /// Returns the registers with the arrival times of outputs that no action has received.
  std::vector<Register> left() const {
    std::vector<Register> registers;
    std::ranges::copy_if(there_, std::back_inserter(registers), [](Register at) { return at < kOnRank; });
    return registers;
  }

 private:
  static constexpr Register kNowhere = kNoRegister;
  static constexpr Register kOnRank = kNoRegister - 1;

  std::size_t place_of(const ActionWay& way, const Action& action) const {
    return way.number * units_ + index(action.microbatch);
  }

  ActionWays ways_;
  std::size_t units_;
  std::vector<Register> there_;  // register of each output, by edge and direction, and then by unit
  std::size_t newest_ = 0;
  std::size_t newest_way_ = 0;
};

/// The registers with the ends of collectives for which a later action or collective may wait.
class CollectiveEnds {
 public:
  explicit CollectiveEnds(std::int32_t ranks) : last_of_rank_(index(ranks), kNoRegister) {}

  bool empty() const { return uses_.empty(); }
  Register last_of(std::int32_t rank) const { return last_of_rank_[index(rank)]; }

  /// Records that register `end` has the end time of the rank's newest collective of this stage and kind.
  /// Calls `let_go` with each register that no later instruction needs.
  template <class LetGo>
  void note(std::int32_t rank, const Action& collective, Register end, const LetGo& let_go) {
    if (end >= uses_.size()) uses_.resize(end + 1, 0);
    // The end may be read twice: by the rank's next collective, and by the next action that waits for this
    // collective.
    uses_[end] += 2;
    release(std::exchange(last_of_rank_[index(rank)], end), let_go);
    release(std::exchange(newest(rank, collective), end), let_go);
  }
  /// Returns the register of the collective's end. Returns kNoRegister if an earlier action has already
  /// waited for it.
  Register take(std::int32_t rank, const Action& collective) {
    return std::exchange(newest(rank, collective), kNoRegister);
  }
  template <class LetGo>
  void release(Register end, const LetGo& let_go) {
    if (end != kNoRegister && --uses_[end] == 0) let_go(end);
  }

 private:
  Register& newest(std::int32_t rank, const Action& collective) {
    const auto [number, is_new] =
        places_.of({static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(collective.stage),
                    static_cast<std::uint32_t>(collective.kind)});
    if (is_new) newest_.push_back(kNoRegister);
    return newest_[number];
  }

  std::vector<Register> last_of_rank_;
  Numbering<3> places_;           // number of each combination of rank, stage and kind
  std::vector<Register> newest_;  // register of the newest collective, by number in places_
  std::vector<std::int32_t> uses_;
};

/// The writer of a tape. TurnTaking calls it for each action, each message and each member of a collective
/// that it places.
class TurnTapeWriter {
 public:
  TurnTapeWriter(const Program& program, ChannelModel model, const MicrobatchGroups& groups,
                 HandedRegisters& handed)
      : program_(program),
        handed_(handed),
        trash_(static_cast<Register>(program.rank_count())),
        link_of_edge_(handed.way_count(), kSeveralLinks),
        ways_(ChannelOptions{.model = model}, groups, handed.way_count()),
        ends_(program.rank_count()),
        classes_(groups, program.rank_count(), tape()) {
    tape().groups = groups;
    tape().rank_count = program.rank_count();
    tape().last = trash_ + 1;
    tape().register_count = tape().last + 1;
    std::size_t actions = 0;
    for (const std::vector<Action>& list : program.ranks) {
      next_position_.push_back(static_cast<std::int32_t>(actions));
      actions += list.size();
    }
    code_.reserve(actions + actions / 8);
    tape().origins.reserve(actions + actions / 8);
    turns_.units.reserve(actions);
  }

  template <std::size_t kActions>
  void compute(std::int32_t rank, std::span<const Action, kActions> group) {
    std::int32_t& next = next_position_[index(rank)];
    const std::int32_t position = std::exchange(next, next + static_cast<std::int32_t>(group.size()));
    // A RESHARD takes no time and nothing waits for it, so it gets a position but no instruction.
    if (group.front().kind == ActionKind::reshard) return;
    const auto clock = static_cast<Register>(rank);
    // The arrival of the first input. Separate instructions raise the clock to the arrivals of further
    // inputs.
    Register input = clock;
    for (const Action& action : group) {
      handed_.take_in(action, [&](Register arrival) {
        if (input == clock) {
          input = arrival;
          return;
        }
        raise_by_further(clock, arrival);
      });
    }
    if (!ends_.empty()) wait_for_collectives(rank, group);
    write(clock, input, classes_.duration_of(group), {.position = position});
    if (input != clock) free_.push_back(input);
    sends_nothing_ = true;
  }

  void message(const StageMessage& message, std::int32_t from_rank, std::int32_t to_rank) {
    const std::uint32_t link = link_of(message, from_rank, to_rank);
    const Register arrival = new_register();
    const Origin origin{.message = new_message(message.microbatch)};
    if (std::exchange(sends_nothing_, false)) {  // the last compute action sends this message
      code_.send_along(arrival, link);
      senders_.add(code_.last_duration());
      tape().origins.back().message = origin.message;
    } else {
      const auto clock = static_cast<Register>(from_rank);
      senders_.add(kNoTime);
      write_linked(clock, clock, arrival, kNoTime, link, origin);
    }
    handed_.newest_arrives(arrival);
  }

  void collective(std::int32_t rank, const Action& action) {
    // TurnTaking passes all members of a collective one after the other, so only one collective is incomplete
    // at a time.
    ++next_position_[index(rank)];
    turns_.has_collectives = true;
    sends_nothing_ = false;
    gather(static_cast<Register>(rank));
    if (ends_.last_of(rank) != kNoRegister) raise(gathered_, ends_.last_of(rank));
    members_.push_back(rank);
    if (members_.size() < program_.placement.stages[index(action.stage)].ranks.size()) return;
    const Register end = std::exchange(gathered_, kNoRegister);
    write(end, end, classes_.duration_of({&action, 1}), {.message = new_message(kNoMicrobatch)});
    for (const std::int32_t member : members_)
      ends_.note(member, action, end, [this](Register at) { free_.push_back(at); });
    members_.clear();
  }

  TurnTape turns() && {
    // All registers after `last` belong to messages and collectives, because queues have no registers yet. If
    // all of them are free, every message was received. Otherwise the program ends when the remaining
    // messages have arrived.
    const bool all_taken_in = free_.size() == tape().register_count - (tape().last + 1);
    if (!all_taken_in) {
      for (const Register arrival : handed_.left()) raise(tape().last, arrival);
    }
    wait_for_last_collectives();
    tape().code = std::move(code_).instructions();
    number_queues();
    tape().senders = senders_.of(tape());
    return std::move(turns_);
  }

 private:
  Tape& tape() { return turns_.tape; }

  // --- collectives ----------------------------------------------------------------------------------

  void gather(Register clock) {
    if (gathered_ != kNoRegister) {
      raise(gathered_, clock);
      return;
    }
    gathered_ = new_register();
    write_linked(clock, clock, gathered_, kNoTime, classes_.link_of_none(clock), {});
  }

  /// Sets the rank's clock to the latest end of the collectives for which the group waits, if this end is
  /// later than the clock.
  [[gnu::noinline]] void wait_for_collectives(std::int32_t rank, std::span<const Action> group) {
    for (const Action& action : group) {
      for (const ActionKind awaited : collectives_before(action.kind, program_.sharding)) {
        const Register end = ends_.take(rank, {.kind = awaited, .stage = action.stage});
        if (end == kNoRegister) continue;
        raise(static_cast<Register>(rank), end);
        ends_.release(end, [this](Register at) { free_.push_back(at); });
      }
    }
  }

  void wait_for_last_collectives() {
    // All members of a collective have the same register, so duplicates are removed.
    std::vector<Register> ends;
    for (std::int32_t rank = 0; rank < tape().rank_count; ++rank) {
      if (ends_.last_of(rank) != kNoRegister) ends.push_back(ends_.last_of(rank));
    }
    std::ranges::sort(ends);
    const auto twice = std::ranges::unique(ends);
    ends.erase(twice.begin(), twice.end());
    for (const Register end : ends) raise(tape().last, end);
  }

  [[gnu::noinline]] void raise_by_further(Register clock, Register arrival) {
    raise(clock, arrival);
    free_.push_back(arrival);
  }

  // --- registers and classes --------------------------------------------------------------------------

  Register new_register() {
    if (free_.empty()) return tape().register_count++;
    const Register reused = free_.back();
    free_.pop_back();
    return reused;
  }

  std::int32_t new_message(std::int32_t unit) {
    turns_.units.push_back(unit);
    return static_cast<std::int32_t>(turns_.units.size() - 1);
  }

  /// Returns the link class of a message. Most messages of one edge and direction have the same link class.
  std::uint32_t link_of(const StageMessage& message, std::int32_t from_rank, std::int32_t to_rank) {
    const std::uint32_t known = link_of_edge_[handed_.newest_way()];
    return known < kSeveralLinks ? known : find_link(message, from_rank, to_rank);
  }
  [[gnu::noinline]] std::uint32_t find_link(StageMessage message, std::int32_t from_rank,
                                            std::int32_t to_rank) {
    std::uint32_t& known = link_of_edge_[handed_.newest_way()];
    const std::uint32_t link =
        link_of_way(ways_.of({.from_rank = from_rank, .to_rank = to_rank, .send = send_of(message)}, false));
    // An edge has several link classes if a stage has replicas, or if microbatches have different costs.
    const auto alone = [&](std::int32_t stage) {
      return program_.placement.stages[index(stage)].ranks.size() == 1;
    };
    const bool only_one = tape().groups.count == 1 && alone(message.from) && alone(message.to);
    known = only_one ? link : kSeveralLinks;
    return link;
  }

  /// Returns the link class of a route, and creates it if there is none yet. The registers of its queues are
  /// set later, when all routes are known.
  std::uint32_t link_of_way(std::uint32_t way) {
    if (way == link_of_way_.size()) {
      link_of_way_.push_back(static_cast<std::uint32_t>(tape().links.size()));
      tape().links.emplace_back();
    }
    return link_of_way_[way];
  }

  void number_queues() {
    WayRegisters registers = std::move(ways_).in_registers(tape().register_count);
    tape().register_count += registers.queue_count;
    tape().transfers = std::move(registers.transfers);
    tape().both_ends = registers.both_ends;
    for (std::size_t way = 0; way < link_of_way_.size(); ++way)
      tape().links[link_of_way_[way]] = registers.links[way];
  }

  // --- instructions -------------------------------------------------------------------------------

  void raise(Register raised, Register by) { write(raised, by, kNoTime, {}); }

  /// Writes an instruction without a message.
  void write(Register a, Register b, std::uint32_t duration, const Origin& origin) {
    write_linked(a, b, trash_, duration, classes_.link_of_none(a), origin);
  }

  void write_linked(Register a, Register b, Register d, std::uint32_t duration, std::uint32_t link,
                    const Origin& origin) {
    code_.add(a, b, d, duration, link);
    tape().origins.push_back(origin);
  }

  const Program& program_;
  HandedRegisters& handed_;
  Register trash_;                           // register that is written but never read
  std::vector<std::int32_t> next_position_;  // position of the next action of each rank
  bool sends_nothing_ = false;  // true if the last instruction is a compute action and sends no message yet
  Register gathered_ = kNoRegister;  // register of the incomplete collective
  std::vector<std::int32_t> members_;
  std::vector<Register> free_;
  // The value for an edge that has several link classes, or whose link class is not known yet.
  static constexpr std::uint32_t kSeveralLinks = 0xffff'fffe;
  std::vector<std::uint32_t> link_of_edge_;  // link of each edge and flow
  std::vector<std::uint32_t> link_of_way_;
  MessageWays ways_;
  CollectiveEnds ends_;
  TurnTape turns_;
  TapeClasses classes_;
  QueueSenders senders_;
  TapeCode code_;
};

}  // namespace

std::optional<TurnTape> compile_turns(const Program& program, const ChannelOptions& channels,
                                      const MicrobatchGroups& groups) {
  const bool is_plain = !channels.waits() && channels.capacity == 0 && channels.eager_bytes == 0;
  if (!is_plain || program.iterations > 1) return std::nullopt;
  // TurnTapeWriter supports no copies to and from hosts, because its tape has no queues for them.
  const bool has_copies = std::ranges::any_of(program.ranks, [](const std::vector<Action>& list) {
    return std::ranges::any_of(list, [](const Action& action) { return is_host_copy(action.kind); });
  });
  if (has_copies) return std::nullopt;
  ListHeads lists(program);
  HandedRegisters handed(program);
  TurnTapeWriter writer(program, channels.model, groups, handed);
  const TurnsTaken taken = TurnTaking(program, lists, handed, writer).run();
  // If the rounds stopped before the end, some members joined a collective early. Only the walk over lists
  // proves that such a program does not hang.
  if (!taken.finished || !taken.stuck.empty()) return std::nullopt;
  return std::move(writer).turns();
}

}  // namespace penstock

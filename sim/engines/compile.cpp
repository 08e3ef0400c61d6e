// Compiles a flat program to a tape. It walks through the program (ListWalk) and writes instructions, whose
// registers hold times when the tape runs. A cause is an event for which a message waits, and the walk
// reports each cause. The writer finds or creates the register with the time of the cause:
//
//   a rank's clock        the register of that rank
//   a compute action      that clock if nothing has run since; otherwise a copy, made when the action ended
//   the previous message  the queue's register: the next message of the queue is always the one that waits
//   a collective          the register in which its start was computed
//
// If a message waits only for a compute action and its queues, the instruction of this action sends it. If it
// waits for more, an accumulator register collects the other causes. The first cause sets the register,
// because registers are reused. Later causes raise it, and the last cause starts the message.
//
// A host that launches actions has its own clock, and one instruction for each launch. The launched action or
// message waits for the launch as well. If a host may be at most n compute actions ahead, n registers store
// the ends of the last n compute actions.
//
// If operations start in the order of their launches (launch_walk.hpp), one register of each rank has the
// start of its newest resident launch. The causes of a later launch are collected in an accumulator until the
// launch raises this register. A message then waits only for the registers of its two ranks.

#include "sim/engines/evaluate.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/launch_lists.hpp"
#include "schedules/check/launch_walk.hpp"
#include "schedules/check/walk.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "sim/engines/tape.hpp"
#include "sim/engines/tape_writer.hpp"

namespace penstock {
namespace {

/// A writer of a tape, which ListWalk calls while it processes the action lists of all ranks. ListWalk
/// defines the meaning of each call. Registers are assigned in this order:
///
///   0 .. ranks-1 clocks | trash | last | queues of channels | hosts | accumulators and messages, reused
class TapeWriter {
 public:
  TapeWriter(const FlatProgram& flat, const ChannelOptions& channels, const MicrobatchGroups& groups)
      : flat_(flat),
        waits_outside_(channels.eager_bytes > 0 || has_followers(flat, channels)),
        in_launch_order_(has_launch_order(channels)),
        trash_(static_cast<Register>(flat.rank_count)),
        messages_(flat.messages.size()),
        newest_(index(flat.rank_count), kNone),
        classes_(groups, flat.rank_count, tape_) {
    tape_.groups = groups;
    tape_.rank_count = flat.rank_count;
    tape_.last = trash_ + 1;
    // In a group of transfers, several messages may be in one queue at the same time. Each of them then needs
    // its own register.
    ChannelOptions queues = channels;
    if (!flat.transfer_group.empty()) queues.blocking = Blocking::batched;
    find_ways(queues, groups);
    if (has_followers(flat, channels)) senders_.add_other();
    if (in_launch_order_) follow_launches();
    if (!flat.next_member.empty()) count_collectives();
    for (std::int32_t rank = 0; flat.has_launches && rank < flat.rank_count; ++rank) make_host(rank);
    // Each position that takes time needs one instruction. Messages that wait for several causes need more,
    // so an eighth is added.
    const auto timed = static_cast<std::size_t>(std::ranges::count_if(
        flat.ops, [](FlatOp op) { return op == FlatOp::compute || op == FlatOp::collective; }));
    code_.reserve(timed + timed / 8);
    tape_.origins.reserve(timed + timed / 8);
  }

  void compute(std::int32_t rank, std::int32_t position, std::span<const std::int32_t> inputs) {
    const auto clock = static_cast<Register>(rank);
    // An instruction has one input besides the clock, so separate instructions raise the clock to the other
    // inputs. The result is the same, because the rank starts no other action in between.
    for (std::size_t i = 1; i < inputs.size(); ++i) raise_register(clock, arrival(inputs[i]));
    if (flat_.has_launches) raise_register(clock, hosts_[index(rank)].clock);
    write(clock, inputs.empty() ? clock : arrival(inputs[0]), duration_at(position), {.position = position});
    for (const std::int32_t message : inputs) used(message);
    newest_[index(rank)] = position;
    computed_last_ = code_.size();
    if (!late_sends_.empty()) copy_for_late_sends(position);
    if (flat_.has_launches) keep_end(rank);
  }

  void launch(std::int32_t rank, std::int32_t position) {
    const Host& host = hosts_[index(rank)];
    const bool computes = flat_.ops[index(position)] == FlatOp::compute;
    // The launch waits for the oldest of the n stored ends. The end of the launched action will replace this
    // end.
    const bool stands = computes && !host.ends.empty() && host.computed >= host.ends.size();
    const Register until = stands ? host.ends[host.computed % host.ends.size()] : host.clock;
    write(host.clock, until, classes_.launch(), {});
  }

  void pass(std::int32_t /*rank*/, std::int32_t /*position*/) {}

  /// Adds a cause for which message `id` waits. `last` is true for its last cause. The function must be
  /// inlined, because each call in ListWalk passes a constant kind of cause.
  [[gnu::always_inline]] void raise(std::int32_t id, const Cause& cause, bool last) {
    if (cause.kind == CauseKind::resident) return gather(id, resident_[index(cause.rank)]);
    if (cause.launched) gather(id, hosts_[index(cause.rank)].clock);
    if (last && has_source(cause)) return;  // start() reads the last cause
    // The message's own instruction reads the queues that the message passes, and SENDs and RECVs in the list
    // take no time. A message needs another register only if it is behind an eager message, or behind a
    // message that travels at the same time.
    if (!has_source(cause) && !waits_outside_) return;
    const Source source = has_source(cause) ? source_of(cause) : Source{.at = release_outside(id, cause)};
    if (source.at == kNoRegister) return;
    gather(id, source.at);
    let_go(source);
  }

  void start(std::int32_t id, const Cause& last) {
    const Source source = has_source(last) ? source_of(last) : Source{};
    if (flat_.messages[index(id)].recv == kNone) {
      start_collective(id, source.at);
    } else {
      start_transfer(id, source.at);
    }
    let_go(source);
    if (messages_[index(id)].uses == 0) unawaited(id);
  }

  void wait(std::int32_t rank, std::int32_t id) {
    raise_register(static_cast<Register>(rank), arrival(id));
    newest_[index(rank)] = kNone;
    used(id);
  }

  void hold(std::int32_t /*rank*/, std::int32_t position, const Cause& cause) {
    Register& held = held_[index(position)];
    if (cause.launched) gather_in(held, hosts_[index(cause.rank)].clock);
    const Source source = has_source(cause) ? source_of(cause) : Source{.at = left_register(cause)};
    if (source.at == kNoRegister) return;
    gather_in(held, source.at);
    let_go(source);
  }

  void reside(std::int32_t rank, std::int32_t position) {
    const Register held = std::exchange(held_[index(position)], kNoRegister);
    if (held == kNoRegister) return;
    raise_register(resident_[index(rank)], held);
    free_.push_back(held);
  }

  Tape tape() && {
    tape_.code = std::move(code_).instructions();
    tape_.senders = senders_.of(tape_);
    return std::move(tape_);
  }

 private:
  struct Message {
    Register gathered = kNoRegister;  ///< accumulator of the causes so far; kNoRegister if none is needed
    Register arrival = kNoRegister;
    std::int32_t uses = 0;  ///< number of later reads of the arrival
  };
  /// The register that contains the time of a cause. If it is a copy or the end of a collective, each read
  /// reduces the number of reads that are left.
  struct Source {
    Register at = kNoRegister;
    std::int32_t producer = kNone;    ///< position of the compute action whose end `at` copies, or kNone
    std::int32_t collective = kNone;  ///< number of the collective whose end is in `at`, or kNone
  };
  /// A copy of the end of a compute action. SENDs of this action's data read it if another compute action of
  /// the rank comes before them.
  struct LateSends {
    std::int32_t count = 0;
    Register copy = kNoRegister;
  };

  struct Host {
    Register clock = kNoRegister;
    /// Ends of the last compute actions; empty if a host may be any number of actions ahead.
    std::vector<Register> ends{};
    std::size_t computed = 0;  ///< number of the rank's compute actions so far
  };

  // --- uses of registers, counted before the walk -----------------------------------------------------

  /// Numbers the routes of messages in the order of their first use, and adds a link class for each route
  /// to the tape.
  void find_ways(const ChannelOptions& channels, const MicrobatchGroups& groups) {
    MessageWays ways(channels, groups, 2 * index(flat_.rank_count));
    link_of_.resize(flat_.messages.size(), 0);
    const auto first = static_cast<std::uint32_t>(tape_.links.size());
    for (std::size_t id = 0; id < flat_.messages.size(); ++id) {
      const FlatMessage& message = flat_.messages[id];
      if (message.recv == kNone) continue;
      const std::uint32_t way = ways.of({.from_rank = message.from_rank,
                                         .to_rank = message.to_rank,
                                         .send = flat_.actions[index(message.first)]},
                                        message.eager);
      link_of_[id] = first + way;
      if (message.eager && message.next_at_receiver != kNone) ways.queue_eager(way);
      // A rank that waits for the message in a group of transfers, or at a WAIT, reads its arrival once more.
      const bool is_posted = flat_.is_grouped(message.first);
      messages_[id].uses = (message.awaited ? 1 : 0) + (flat_.waits_in_group(message.first) ? 1 : 0) +
                           (flat_.waits_in_group(message.recv) ? 1 : 0) + (message.send_awaited ? 1 : 0);
      // A SEND of a group starts when the rank reaches the group, so it reads the rank's clock. In launch
      // order, the SEND is launched directly after its producer, even if it comes later in the list. In both
      // cases, no copy of the producer's end is needed.
      if (message.late && !is_posted && !in_launch_order_) ++late_sends_[message.producer].count;
    }
    WayRegisters registers = std::move(ways).in_registers(tape_.last + 1);
    tape_.register_count = tape_.last + 1 + registers.queue_count;
    tape_.transfers = std::move(registers.transfers);
    tape_.links.insert(tape_.links.end(), registers.links.begin(), registers.links.end());
    tape_.both_ends = registers.both_ends;
  }

  /// Counts how often the end of each collective and barrier is read: by compute actions and WAITs, by the
  /// clocks after a barrier, by the next collective of each member, and by the RELOAD of an OFFLOAD.
  void count_collectives() {
    for (std::size_t p = 0; p < flat_.ops.size(); ++p) {
      const FlatOp op = flat_.ops[p];
      if (op == FlatOp::compute || op == FlatOp::wait) {
        for (std::int32_t w = flat_.next_wait[p]; w != kNone; w = flat_.next_wait[index(w)])
          if (flat_.ops[index(w)] == FlatOp::collective) ++message_at(index(w)).uses;
      } else if (op == FlatOp::barrier || (op == FlatOp::collective && flat_.next_collective[p] != kNone)) {
        ++message_at(p).uses;
      }
      // An OFFLOAD is a collective here. Its end is read once more, by the RELOAD.
      if (op == FlatOp::collective && flat_.messages[index(flat_.message[p])].next_at_receiver != kNone)
        ++message_at(p).uses;
    }
  }

  /// Creates the registers for launches by hosts. A launch also reads the registers of queues, so a run of
  /// the tape must compute the times of queues.
  void follow_launches() {
    held_.assign(flat_.ops.size(), kNoRegister);
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) resident_.push_back(new_register());
    senders_.add_other();
  }

  void make_host(std::int32_t rank) {
    Host& host = hosts_.emplace_back(Host{.clock = new_register()});
    const auto first = flat_.ops.begin() + flat_.rank_begin[index(rank)];
    const auto end = flat_.ops.begin() + flat_.rank_begin[index(rank) + 1];
    const auto all = static_cast<std::int64_t>(std::count(first, end, FlatOp::compute));
    if (flat_.most_ahead == 0 || all <= flat_.most_ahead) return;
    for (std::int32_t i = 0; i < flat_.most_ahead; ++i) host.ends.push_back(new_register());
  }

  Message& message_at(std::size_t position) { return messages_[index(flat_.message[position])]; }

  // --- registers ----------------------------------------------------------------------------------

  Register new_register() {
    if (free_.empty()) return tape_.register_count++;
    const Register reused = free_.back();
    free_.pop_back();
    return reused;
  }

  const LinkClass& link_of(std::int32_t id) const { return tape_.links[link_of_[index(id)]]; }

  Register arrival(std::int32_t id) const { return messages_[index(id)].arrival; }

  void used(std::int32_t id) {
    if (--messages_[index(id)].uses == 0)
      free_.push_back(std::exchange(messages_[index(id)].arrival, kNoRegister));
  }

  void let_go(const Source& source) {
    if (source.collective != kNone) used(source.collective);
    if (source.producer == kNone) return;
    const auto late = late_sends_.find(source.producer);
    if (--late->second.count > 0) return;
    free_.push_back(late->second.copy);
    late_sends_.erase(late);
  }

  // --- causes -------------------------------------------------------------------------------------

  /// Returns true if the time of the cause must be read from a register. An earlier position in the list
  /// needs no register. The message's own instruction reads the registers of its queues.
  static bool has_source(const Cause& cause) {
    return cause.kind != CauseKind::listed && cause.kind != CauseKind::release &&
           cause.kind != CauseKind::resident;
  }

  Source source_of(const Cause& cause) const {
    switch (cause.kind) {
      case CauseKind::clock:
        return {.at = static_cast<Register>(cause.rank)};
      case CauseKind::producer:
        if (newest_[index(cause.rank)] == cause.which) return {.at = static_cast<Register>(cause.rank)};
        return {.at = late_sends_.at(cause.which).copy, .producer = cause.which};
      case CauseKind::collective:
        return {.at = arrival(cause.which), .collective = cause.which};
      case CauseKind::listed:
      case CauseKind::release:
      case CauseKind::resident:
        break;
    }
    return {};
  }

  /// Returns the register with the time at which the previous message leaves a queue in which message `id`
  /// waits. Returns kNoRegister if the queue is one that the instruction of `id` reads itself. The value
  /// changes later, so the caller must read it at once.
  Register release_outside(std::int32_t id, const Cause& cause) const {
    if (cause.kind != CauseKind::release) return kNoRegister;
    const bool sends = flat_.messages[index(id)].from_rank == cause.rank;
    const Register passed = sends ? link_of(id).c : link_of(id).e;
    const Register left = left_register(cause);
    return passed == left ? kNoRegister : left;
  }

  /// Returns the queue register with the time at which the earlier message leaves, if the cause is a
  /// release of a queue. Returns kNoRegister for other causes.
  Register left_register(const Cause& cause) const {
    if (cause.kind != CauseKind::release) return kNoRegister;
    const FlatMessage& before = flat_.messages[index(cause.which)];
    const LinkClass& link = link_of(cause.which);
    return before.from_rank == cause.rank || before.eager ? link.c : link.e;
  }

  void gather(std::int32_t id, Register source) { gather_in(messages_[index(id)].gathered, source); }

  /// Sets the register `gathered` to the larger of its own time and that of `source`. Creates the register as
  /// a copy of `source` if there is none yet.
  void gather_in(Register& gathered, Register source) {
    if (gathered != kNoRegister) {
      raise_register(gathered, source);
      return;
    }
    gathered = new_register();
    copy(source, gathered);
  }

  /// Copies the end of the compute action at `position` for late SENDs. Must be called directly after the
  /// instruction of this action is written.
  void copy_for_late_sends(std::int32_t position) {
    const auto late = late_sends_.find(position);
    if (late != late_sends_.end()) code_.send_along(late->second.copy = new_register());
  }

  /// Stores the end of the rank's newest compute action, because a later launch of the host waits for it.
  void keep_end(std::int32_t rank) {
    Host& host = hosts_[index(rank)];
    if (!host.ends.empty()) copy(static_cast<Register>(rank), host.ends[host.computed % host.ends.size()]);
    ++host.computed;
  }

  /// Copies a register. If the last instruction has set `source` and does not send a message yet, this
  /// instruction also makes the copy. Otherwise a new instruction makes it.
  void copy(Register source, Register to) {
    if (is_open(source)) {
      code_.send_along(to);
    } else {
      write_linked(source, source, to, kNoTime, classes_.link_of_none(source), {});
    }
  }

  /// Returns true if the last instruction ran a compute action of the rank with the clock `source`, and sends
  /// no message yet.
  bool is_open(Register source) const {
    return computed_last_ != 0 && computed_last_ == code_.size() && code_.last_clock() == source &&
           code_.last_message() == trash_;
  }

  // --- starts -------------------------------------------------------------------------------------

  void start_collective(std::int32_t id, Register source) {
    // A collective always needs its own register, which keeps its end for later actions. The clocks of its
    // members cannot keep the end, because they increase.
    Message& message = messages_[index(id)];
    if (message.gathered == kNoRegister) {
      message.gathered = new_register();
      copy(source, message.gathered);
    }
    const Register at = std::exchange(message.gathered, kNoRegister);
    const std::int32_t member = flat_.messages[index(id)].first;
    const bool is_barrier = flat_.ops[index(member)] == FlatOp::barrier;
    write(at, source == kNoRegister ? at : source, is_barrier ? kNoTime : duration_at(member),
          {.message = id});
    message.arrival = at;
  }

  void start_transfer(std::int32_t id, Register source) {
    Message& message = messages_[index(id)];
    message.arrival = new_register();
    const Register gathered = std::exchange(message.gathered, kNoRegister);
    const std::uint32_t link = link_of_[index(id)];
    if (gathered == kNoRegister && source != kNoRegister && is_open(source)) {
      code_.send_along(message.arrival, link);
      senders_.add(code_.last_duration());
      tape_.origins.back().message = id;
      return;
    }
    // If there is neither an accumulator nor a source, no action produces the message. It starts as soon as
    // its queues are free, so the instruction reads the queue's register.
    const Register first = gathered != kNoRegister ? gathered
                           : source != kNoRegister ? source
                                                   : link_of(id).c;
    if (gathered == kNoRegister && source == static_cast<Register>(flat_.messages[index(id)].from_rank)) {
      senders_.add(kNoTime);
    } else {
      senders_.add_other();
    }
    write_linked(first, source == kNoRegister ? first : source, message.arrival, kNoTime, link,
                 {.message = id});
    if (gathered != kNoRegister) free_.push_back(gathered);
  }

  /// Raises the end time of the program to the end of message `id`, for which no rank waits.
  void unawaited(std::int32_t id) {
    const Register at = std::exchange(messages_[index(id)].arrival, kNoRegister);
    raise_register(tape_.last, at);
    free_.push_back(at);
  }

  // --- instructions -------------------------------------------------------------------------------

  /// Returns the duration class of the group of compute actions that starts at `position`, or of the
  /// collective at `position`.
  std::uint32_t duration_at(std::int32_t position) {
    const bool collective = flat_.ops[index(position)] == FlatOp::collective;
    const std::int32_t end = collective ? position + 1 : flat_.group_end(position);
    return classes_.duration_of(std::span(flat_.actions).subspan(index(position), index(end - position)));
  }

  void raise_register(Register raised, Register by) { write(raised, by, kNoTime, {}); }

  /// Writes an instruction without a message.
  void write(Register a, Register b, std::uint32_t duration, const Origin& origin) {
    write_linked(a, b, trash_, duration, classes_.link_of_none(a), origin);
  }

  void write_linked(Register a, Register b, Register d, std::uint32_t duration, std::uint32_t link,
                    const Origin& origin) {
    code_.add(a, b, d, duration, link);
    tape_.origins.push_back(origin);
  }

  const FlatProgram& flat_;
  bool waits_outside_;    // true if a message may wait for a queue register that it does not pass itself
  bool in_launch_order_;  // true if operations start in the order of their launches
  Register trash_;        // register that is written but never read
  std::vector<Message> messages_;
  std::vector<std::uint32_t> link_of_;  // number of the link class of each message
  // For each rank, the position of the compute action whose end is the rank's clock, or kNone.
  std::vector<std::int32_t> newest_;
  std::unordered_map<std::int32_t, LateSends>
      late_sends_;                 // copies for late SENDs, by position of the producer
  std::size_t computed_last_ = 0;  // number of instructions up to the last compute action; 0 if there is none
  std::vector<Register> free_;
  std::vector<Host> hosts_;  // one for each rank; empty if no host launches
  // The two vectors are empty without a launch order.
  std::vector<Register> held_;  // register that collects the causes of each launch, by position of the launch
  std::vector<Register> resident_;  // start of the newest resident launch of each rank
  Tape tape_;
  TapeClasses classes_;
  QueueSenders senders_;
  TapeCode code_;
};

}  // namespace

std::optional<Tape> compile(const FlatProgram& flat, const ChannelOptions& channels,
                            const MicrobatchGroups& groups) {
  TapeWriter writer(flat, channels, groups);
  if (has_launch_order(channels)) {
    if (LaunchWalk<TapeWriter>(flat, writer).run()) return std::nullopt;
    return std::move(writer).tape();
  }
  if (ListWalk<TapeWriter>(flat, channels, writer).run()) return std::nullopt;
  return std::move(writer).tape();
}

}  // namespace penstock

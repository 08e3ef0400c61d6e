// A walk whose times are registers. The walk tells what each message waits for, one cause after the other;
// the writer finds or makes a register that holds each cause:
//
//   a rank's clock        the register of that rank
//   a compute action      that clock while nothing has run since; otherwise a copy, taken as it ended
//   the message before    the queue's register: the next one to pass it is always the follower
//   a collective          the register in which it was gathered
//
// A message that waits for more than its producer and its queues gathers the rest in an accumulator: the
// first cause assigns it, later ones raise it, the last one starts the message. Slots of accumulators and of
// messages under way are reused as soon as nobody asks for them any more; hence the first cause must assign.
// A message that a compute action produces, and that waits for nothing else, rides on that action's
// instruction.
//
// A host that launches is a clock beside its rank's, raised by an instruction a launch. What is launched
// takes it for one more cause. Where hosts run no more than n compute actions ahead, the ends of the last n
// are copied into registers that take turns.

#include "sim/engines/compile.hpp"

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
#include "schedules/check/walk.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "sim/engines/message_ways.hpp"
#include "sim/engines/queue_senders.hpp"
#include "sim/engines/tape.hpp"
#include "sim/engines/tape_classes.hpp"
#include "sim/engines/tape_code.hpp"

namespace penstock {
namespace {

/// The sink of the walk (ListWalk says what each member means). Registers are handed out while it goes:
///
///   0 .. ranks-1 clocks | trash | last | queues of channels | hosts | accumulators and messages, reused
class TapeWriter {
 public:
  TapeWriter(const FlatProgram& flat, const ChannelOptions& channels, const MicrobatchGroups& groups)
      : flat_(flat),
        blocking_(channels.blocking),
        some_eager_(channels.eager_bytes > 0),
        trash_(static_cast<Register>(flat.rank_count)),
        messages_(flat.messages.size()),
        newest_(index(flat.rank_count), kNone),
        classes_(groups, flat.rank_count, tape_) {
    tape_.groups = groups;
    tape_.rank_count = flat.rank_count;
    tape_.last = trash_ + 1;
    find_ways(channels.model, groups);
    if (!flat.next_member.empty()) count_collectives();
    for (std::int32_t rank = 0; flat.has_launches && rank < flat.rank_count; ++rank) make_host(rank);
    // An instruction for each position that takes time, and a few where messages wait for more.
    const auto timed = static_cast<std::size_t>(std::ranges::count_if(
        flat.ops, [](FlatOp op) { return op == FlatOp::compute || op == FlatOp::collective; }));
    code_.reserve(timed + timed / 8);
    tape_.origins.reserve(timed + timed / 8);
  }

  void compute(std::int32_t rank, std::int32_t position, std::span<const std::int32_t> inputs) {
    const auto clock = static_cast<Register>(rank);
    // One instruction takes one input beside the clock. Of several the others move the clock first, which
    // nobody sees: nothing of the rank starts before this action does.
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
    // Of the n ends that are kept a launch waits for the oldest, which stands where the next one will.
    const bool stands = computes && !host.ends.empty() && host.computed >= host.ends.size();
    const Register until = stands ? host.ends[host.computed % host.ends.size()] : host.clock;
    write(host.clock, until, classes_.launch(), {});
  }

  void pass(std::int32_t /*rank*/, std::int32_t /*position*/) {}

  /// Inline at each call of the walk, which knows the kind of its cause.
  [[gnu::always_inline]] void raise(std::int32_t id, const Cause& cause, bool last) {
    if (cause.launched) gather(id, hosts_[index(cause.rank)].clock);
    if (last && has_source(cause)) return;  // start() takes it
    // Queues that the message passes are registers of its own instruction, and a list takes no time. Only
    // behind an eager message does somebody wait for a queue that he does not pass.
    if (!has_source(cause) && !some_eager_) return;
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

  Tape tape() && {
    tape_.code = std::move(code_).instructions();
    tape_.senders = senders_.of(tape_);
    return std::move(tape_);
  }

 private:
  struct Message {
    Register gathered = kNoRegister;  ///< causes so far, where they need a register
    Register arrival = kNoRegister;
    std::int32_t uses = 0;  ///< how many will still read the arrival
  };
  /// A register that is read once, and what is given back after that.
  struct Source {
    Register at = kNoRegister;
    std::int32_t producer = kNone;    ///< a copy of this position's end was read
    std::int32_t collective = kNone;  ///< this collective's end was read
  };
  /// The end of a compute action that SENDs behind later ones ask for.
  struct LateSends {
    std::int32_t count = 0;
    Register copy = kNoRegister;
  };

  struct Host {
    Register clock = kNoRegister;
    std::vector<Register> ends{};  ///< of its rank's last compute actions; none where it may run ahead of all
    std::size_t computed = 0;      ///< compute actions of its rank so far
  };

  // --- what the lists ask for ---------------------------------------------------------------------

  /// Ways are numbered as messages meet them; their link classes follow those there are, in this order.
  void find_ways(ChannelModel model, const MicrobatchGroups& groups) {
    MessageWays ways(model, groups, 2 * index(flat_.rank_count));
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
      // Blocking: program order of both its ranks waits for it, too.
      messages_[id].uses = (message.awaited ? 1 : 0) + (blocking_ ? 2 : 0);
      if (message.late && !blocking_) ++late_sends_[message.producer].count;
    }
    WayRegisters registers = std::move(ways).in_registers(tape_.last + 1);
    tape_.register_count = tape_.last + 1 + registers.queue_count;
    tape_.transfers = std::move(registers.transfers);
    tape_.links.insert(tape_.links.end(), registers.links.begin(), registers.links.end());
    tape_.both_ends = registers.both_ends;
  }

  /// Counts the readers of what is no transfer: compute actions, all clocks behind a barrier, and the next
  /// collective of each member.
  void count_collectives() {
    for (std::size_t p = 0; p < flat_.ops.size(); ++p) {
      const FlatOp op = flat_.ops[p];
      if (op == FlatOp::compute) {
        for (std::int32_t w = flat_.next_wait[p]; w != kNone; w = flat_.next_wait[index(w)])
          if (flat_.ops[index(w)] == FlatOp::collective) ++message_at(index(w)).uses;
      } else if (op == FlatOp::barrier || (op == FlatOp::collective && flat_.next_collective[p] != kNone)) {
        ++message_at(p).uses;
      }
    }
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

  /// False where program order or a queue, which the message passes anyway, says when.
  static bool has_source(const Cause& cause) {
    return cause.kind != CauseKind::listed && cause.kind != CauseKind::release;
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
        break;
    }
    return {};
  }

  /// The register that says when an eager message has left, for what waits behind it at the receiver; none
  /// where the queue that `id` itself passes says so. The register moves on, so it is read at once.
  Register release_outside(std::int32_t id, const Cause& cause) const {
    if (cause.kind != CauseKind::release) return kNoRegister;
    const FlatMessage& before = flat_.messages[index(cause.which)];
    if (!before.eager || cause.rank != before.to_rank) return kNoRegister;
    const bool sends = flat_.messages[index(id)].from_rank == cause.rank;
    const Register passed = sends ? link_of(id).c : link_of(id).e;
    const Register left = link_of(cause.which).c;
    return passed == left ? kNoRegister : left;
  }

  void gather(std::int32_t id, Register source) {
    Register& gathered = messages_[index(id)].gathered;
    if (gathered != kNoRegister) {
      raise_register(gathered, source);
      return;
    }
    gathered = new_register();
    copy(source, gathered);
  }

  /// Right behind the instruction of the compute action at `position`.
  void copy_for_late_sends(std::int32_t position) {
    const auto late = late_sends_.find(position);
    if (late != late_sends_.end()) code_.send_along(late->second.copy = new_register());
  }

  /// For the launch of the compute action that may not be given before this one has ended.
  void keep_end(std::int32_t rank) {
    Host& host = hosts_[index(rank)];
    if (!host.ends.empty()) copy(static_cast<Register>(rank), host.ends[host.computed % host.ends.size()]);
    ++host.computed;
  }

  /// Rides on the instruction that has just set the source, where that carries nothing yet.
  void copy(Register source, Register to) {
    if (is_open(source)) {
      code_.send_along(to);
    } else {
      write_linked(source, source, to, kNoTime, classes_.link_of_none(source), {});
    }
  }

  /// True when the last instruction ran a compute action of the rank whose clock `source` is, and sends
  /// nothing along yet.
  bool is_open(Register source) const {
    return computed_last_ != 0 && computed_last_ == code_.size() && code_.last_clock() == source &&
           code_.last_message() == trash_;
  }

  // --- starts -------------------------------------------------------------------------------------

  void start_collective(std::int32_t id, Register source) {
    // A register of its own, also where all members have one cause: the clock of a member goes on, while its
    // next collective and its actions ask for this one's end later.
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
    // With neither, it is a message that nothing produces: it starts as soon as its queues let it.
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

  /// Nobody waits for its end, but the program is not over before it.
  void unawaited(std::int32_t id) {
    const Register at = std::exchange(messages_[index(id)].arrival, kNoRegister);
    raise_register(tape_.last, at);
    free_.push_back(at);
  }

  // --- instructions -------------------------------------------------------------------------------

  /// The class of the group of compute actions that starts at a position, or of the collective there.
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
  bool blocking_;
  bool some_eager_;  // there may be eager messages
  Register trash_;   // written, never read
  std::vector<Message> messages_;
  std::vector<std::uint32_t> link_of_;  // by message: its link class
  std::vector<std::int32_t> newest_;    // by rank: the compute position whose end its clock is
  std::unordered_map<std::int32_t, LateSends> late_sends_;  // by position of the producer
  std::size_t computed_last_ = 0;  // instructions up to the last one that ran a compute action; 0: none
  std::vector<Register> free_;
  std::vector<Host> hosts_;  // by rank; none without launches
  Tape tape_;
  TapeClasses classes_;
  QueueSenders senders_;
  TapeCode code_;
};

}  // namespace

std::optional<Tape> compile(const FlatProgram& flat, const ChannelOptions& channels,
                            const MicrobatchGroups& groups) {
  TapeWriter writer(flat, channels, groups);
  if (ListWalk<TapeWriter>(flat, channels, writer).run()) return std::nullopt;
  return std::move(writer).tape();
}

}  // namespace penstock

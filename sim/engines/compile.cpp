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

#include "sim/engines/compile.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "sim/engines/queue_registers.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {
namespace {

/// Numbers things by their key, in the order in which they are met.
template <class Key>
class Numbering {
 public:
  /// The number, and whether it is new.
  std::pair<std::uint32_t, bool> of(const Key& key) {
    const auto [entry, is_new] = numbers_.try_emplace(key, static_cast<std::uint32_t>(numbers_.size()));
    return {entry->second, is_new};
  }

 private:
  std::map<Key, std::uint32_t> numbers_;
};

/// The sink of the walk.
class TapeWriter {
 public:
  TapeWriter(const FlatProgram& flat, const ChannelOptions& channels)
      : flat_(flat),
        blocking_(channels.blocking),
        trash_(static_cast<Register>(flat.rank_count)),
        messages_(flat.messages.size()),
        newest_(index(flat.rank_count), kNone) {
    tape_.rank_count = flat.rank_count;
    tape_.last = trash_ + 1;
    const QueueRegisters queues = queue_registers(flat, tape_.last + 1);
    tape_.register_count = tape_.last + 1 + queues.count;
    for (std::size_t id = 0; id < messages_.size(); ++id) messages_[id].queues = queues.ends[id];
    duration_classes_.of({});
    tape_.durations.emplace_back();
    count_uses();
    if (!blocking_) find_late_sends();
  }

  void compute(std::int32_t rank, std::int32_t position, std::span<const std::int32_t> inputs) {
    const auto clock = static_cast<Register>(rank);
    for (std::size_t i = 1; i < inputs.size(); ++i) raise_register(clock, arrival(inputs[i]));
    const std::size_t here = write({.a = clock,
                                    .b = inputs.empty() ? clock : arrival(inputs[0]),
                                    .d = trash_,
                                    .duration = duration_of_group(position)},
                                   {.position = position});
    for (const std::int32_t message : inputs) used(message);
    newest_[index(rank)] = position;
    open_ = here;
    const auto late = late_sends_.find(position);
    if (late != late_sends_.end()) code_[here].d = late->second.copy = new_register();
  }

  void pass(std::int32_t /*rank*/, std::int32_t /*position*/) {}

  void raise(std::int32_t id, const Cause& cause, bool last) {
    const Source source = source_of(id, cause);
    const bool carried = source.at == kNoRegister || (last && cause.kind != CauseKind::release);
    if (!carried) gather(id, source.at);
    const bool waits = last && carried;  // for start(), which reads and lets go
    if (last) starting_.push_back(waits ? source : Source{});
    if (!waits) let_go(source);
  }

  void start(std::int32_t id) {
    const Source source = starting_[next_start_++];
    if (next_start_ == starting_.size()) {
      starting_.clear();
      next_start_ = 0;
    }
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
    if (tape_.durations.size() > kNarrow || tape_.links.size() > kNarrow) {
      tape_.code = std::move(code_);
      return std::move(tape_);
    }
    std::vector<NarrowInstruction> narrow;
    narrow.reserve(code_.size());
    for (const WideInstruction& wide : code_) {
      narrow.push_back({.a = wide.a,
                        .b = wide.b,
                        .d = wide.d,
                        .duration = static_cast<std::uint16_t>(wide.duration),
                        .link = static_cast<std::uint16_t>(wide.link)});
    }
    tape_.code = std::move(narrow);
    return std::move(tape_);
  }

 private:
  static constexpr std::size_t kNarrow = std::size_t{std::numeric_limits<std::uint16_t>::max()} + 1;
  static constexpr std::size_t kActionKindCount = static_cast<std::size_t>(ActionKind::step) + 1;
  static constexpr std::uint32_t kNoClass = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::size_t kNothingOpen = std::numeric_limits<std::size_t>::max();

  struct Message {
    QueueEnds queues;
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

  // --- what the lists ask for ---------------------------------------------------------------------

  void count_uses() {
    for (std::size_t p = 0; p < flat_.ops.size(); ++p) {
      if (flat_.ops[p] == FlatOp::compute) {
        for (std::int32_t w = flat_.next_wait[p]; w != kNone; w = flat_.next_wait[index(w)])
          ++messages_[index(flat_.message[index(w)])].uses;
      } else if (flat_.ops[p] == FlatOp::barrier || (blocking_ && is_transfer_op(flat_.ops[p]))) {
        ++messages_[index(flat_.message[p])].uses;
      }
      if (!flat_.next_collective.empty() && flat_.next_collective[p] != kNone)
        ++messages_[index(flat_.message[p])].uses;
    }
  }

  static bool is_transfer_op(FlatOp op) { return op == FlatOp::send || op == FlatOp::recv; }

  void find_late_sends() {
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      std::int32_t newest = kNone;
      for (std::int32_t p = flat_.rank_begin[index(rank)]; p < flat_.rank_begin[index(rank) + 1]; ++p) {
        const FlatOp op = flat_.ops[index(p)];
        if (op == FlatOp::compute || op == FlatOp::barrier) newest = p;
        if (op != FlatOp::send) continue;
        const std::int32_t producer = flat_.messages[index(flat_.message[index(p)])].producer;
        if (producer != kNone && producer != newest) ++late_sends_[producer].count;
      }
    }
  }

  // --- registers ----------------------------------------------------------------------------------

  Register new_register() {
    if (free_.empty()) return tape_.register_count++;
    const Register reused = free_.back();
    free_.pop_back();
    return reused;
  }

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

  Source source_of(std::int32_t id, const Cause& cause) const {
    switch (cause.kind) {
      case CauseKind::listed:
        return {};
      case CauseKind::clock:
        return {.at = static_cast<Register>(cause.rank)};
      case CauseKind::producer:
        if (newest_[index(cause.rank)] == cause.which) return {.at = static_cast<Register>(cause.rank)};
        return {.at = late_sends_.at(cause.which).copy, .producer = cause.which};
      case CauseKind::release:
        return {.at = release_outside(id, cause)};
      case CauseKind::collective:
        return {.at = arrival(cause.which), .collective = cause.which};
    }
    return {};
  }

  /// The register that says when an eager message has left, for what waits behind it at the receiver; none
  /// where the queue that `id` itself passes says so. The register moves on, so it is read at once.
  Register release_outside(std::int32_t id, const Cause& cause) const {
    const FlatMessage& before = flat_.messages[index(cause.which)];
    if (!before.eager || cause.rank != before.to_rank) return kNoRegister;
    const Message& message = messages_[index(id)];
    const bool sends = flat_.messages[index(id)].from_rank == cause.rank;
    const Register passed = sends ? message.queues.sender : message.queues.receiver;
    const Register left = messages_[index(cause.which)].queues.sender;
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

  /// Rides on the instruction that has just set the source, where that carries nothing yet.
  void copy(Register source, Register to) {
    if (is_open(source)) {
      code_[open_].d = to;
    } else {
      write({.a = source, .b = source, .d = to}, {});
    }
  }

  /// True when the last instruction ran a compute action of the rank whose clock `source` is, and sends
  /// nothing along yet.
  bool is_open(Register source) const {
    return open_ != kNothingOpen && open_ + 1 == code_.size() && code_[open_].a == source &&
           code_[open_].d == trash_;
  }

  // --- starts -------------------------------------------------------------------------------------

  void start_collective(std::int32_t id, Register source) {
    Message& message = messages_[index(id)];
    if (message.gathered == kNoRegister) {
      message.gathered = new_register();
      copy(source, message.gathered);
    }
    const Register at = std::exchange(message.gathered, kNoRegister);
    const std::int32_t member = flat_.messages[index(id)].first;
    write({.a = at,
           .b = source == kNoRegister ? at : source,
           .d = trash_,
           .duration = flat_.ops[index(member)] == FlatOp::barrier ? 0 : duration_of_group(member)},
          {.message = id});
    message.arrival = at;
  }

  void start_transfer(std::int32_t id, Register source) {
    Message& message = messages_[index(id)];
    message.arrival = new_register();
    const Register gathered = std::exchange(message.gathered, kNoRegister);
    const std::uint32_t link = link_of(id);
    if (gathered == kNoRegister && source != kNoRegister && is_open(source)) {
      code_[open_].d = message.arrival;
      code_[open_].link = link;
      tape_.origins[open_].message = id;
      return;
    }
    const Register first = gathered != kNoRegister ? gathered
                           : source != kNoRegister ? source
                                                   : message.queues.sender;
    write_linked({.a = first,
                  .b = source == kNoRegister ? first : source,
                  .d = message.arrival,
                  .duration = 0,
                  .link = link},
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

  void raise_register(Register raised, Register by) { write({.a = raised, .b = by, .d = trash_}, {}); }

  /// Writes an instruction without a message.
  std::size_t write(WideInstruction instruction, Origin origin) {
    if (instruction.a >= unlinked_.size()) unlinked_.resize(instruction.a + 1, kNoClass);
    std::uint32_t& link = unlinked_[instruction.a];
    if (link == kNoClass) link = link_class({instruction.a, instruction.a, LinkClass::kNoTransfer});
    instruction.link = link;
    return write_linked(instruction, origin);
  }

  std::size_t write_linked(const WideInstruction& instruction, Origin origin) {
    code_.push_back(instruction);
    tape_.origins.push_back(origin);
    return code_.size() - 1;
  }

  /// The class of the group of compute actions at a position, or of the collective there.
  std::uint32_t duration_of_group(std::int32_t position) {
    if (flat_.ops[index(position)] != FlatOp::collective && flat_.group_end(position) > position + 1)
      return group_class(position);
    const Action& action = flat_.actions[index(position)];
    const std::size_t place = index(action.stage) * kActionKindCount + static_cast<std::size_t>(action.kind);
    if (place >= single_classes_.size()) single_classes_.resize(place + 1, 0);
    if (single_classes_[place] == 0) single_classes_[place] = group_class(position);
    return single_classes_[place];
  }

  std::uint32_t group_class(std::int32_t position) {
    std::vector<std::pair<ActionKind, std::int32_t>> key;
    const std::int32_t end =
        flat_.ops[index(position)] == FlatOp::collective ? position + 1 : flat_.group_end(position);
    for (std::int32_t leaf = position; leaf < end; ++leaf)
      key.emplace_back(flat_.actions[index(leaf)].kind, flat_.actions[index(leaf)].stage);
    const auto [number, is_new] = duration_classes_.of(key);
    if (is_new) {
      const auto first = flat_.actions.begin() + position;
      tape_.durations.push_back({.actions = {first, first + (end - position)}});
    }
    return number;
  }

  std::uint32_t link_of(std::int32_t id) {
    const FlatMessage& message = flat_.messages[index(id)];
    const Action& send = flat_.actions[index(message.first)];
    const auto [transfer, is_new] =
        transfer_classes_.of({message.from_rank, message.to_rank, send.kind, send.stage, send.peer});
    if (is_new)
      tape_.transfers.push_back({.from_rank = message.from_rank, .to_rank = message.to_rank, .send = send});
    const QueueEnds& queues = messages_[index(id)].queues;
    const Register receiver = message.eager ? queues.sender : queues.receiver;
    tape_.both_ends |= receiver != queues.sender;
    return link_class({queues.sender, receiver, static_cast<std::int32_t>(transfer)});
  }

  std::uint32_t link_class(const std::tuple<Register, Register, std::int32_t>& key) {
    const auto [number, is_new] = link_classes_.of(key);
    if (is_new)
      tape_.links.push_back({.c = std::get<0>(key), .e = std::get<1>(key), .transfer = std::get<2>(key)});
    return number;
  }

  const FlatProgram& flat_;
  bool blocking_;
  Register trash_;  // written, never read
  std::vector<Message> messages_;
  std::vector<std::int32_t> newest_;  // by rank: the compute position whose end its clock is
  std::unordered_map<std::int32_t, LateSends> late_sends_;  // by position of the producer
  std::vector<Source> starting_;  // of messages whose last cause has come, in that order
  std::size_t next_start_ = 0;
  std::size_t open_ = kNothingOpen;
  std::vector<Register> free_;
  std::vector<WideInstruction> code_;
  std::vector<std::uint32_t> single_classes_;  // by stage and kind; 0: not met yet
  std::vector<std::uint32_t> unlinked_;  // by register: the link class of instructions without a message
  Numbering<std::vector<std::pair<ActionKind, std::int32_t>>> duration_classes_;
  Numbering<std::tuple<std::int32_t, std::int32_t, ActionKind, std::int32_t, std::int32_t>> transfer_classes_;
  Numbering<std::tuple<Register, Register, std::int32_t>> link_classes_;
  Tape tape_;
};

}  // namespace

std::optional<Tape> compile(const FlatProgram& flat, const ChannelOptions& channels) {
  TapeWriter writer(flat, channels);
  if (ListWalk<TapeWriter>(flat, channels, writer).run()) return std::nullopt;
  return std::move(writer).tape();
}

}  // namespace penstock

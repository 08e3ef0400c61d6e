#pragma once
// The classes that compile.cpp and turn_tape.cpp use to write a tape (tape.hpp). They number keys, write
// instructions, find duration classes and queues, and record which ranks send through each queue.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/needs.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// A numbering of keys, each of `kWords` words. Numbers start at 0 and follow the order of first use. The
/// hash table uses open addressing, is at most half full, and contains only the numbers. A vector contains
/// the keys.
template <std::size_t kWords>
class Numbering {
 public:
  using Key = std::array<std::uint32_t, kWords>;
  struct Found {
    std::uint32_t number = 0;
    bool is_new = false;
  };

  Numbering() : places_(64, kFree) { keys_.reserve(places_.size() / 2); }

  Found of(const Key& key) {
    std::size_t place = free_or_equal(key);
    if (places_[place] != kFree) return {.number = places_[place], .is_new = false};
    if (2 * (keys_.size() + 1) > places_.size()) {
      grow();
      place = free_or_equal(key);
    }
    places_[place] = static_cast<std::uint32_t>(keys_.size());
    keys_.push_back(key);
    return {.number = places_[place], .is_new = true};
  }

  /// Returns true if two keys are equal. It compares without branches, because keys are short and mostly
  /// equal.
  static bool equal(const Key& a, const Key& b) {
    std::uint32_t difference = 0;
    for (std::size_t word = 0; word < kWords; ++word) difference |= a[word] ^ b[word];
    return difference == 0;
  }

 private:
  static constexpr std::uint32_t kFree = 0xffff'ffff;

  /// Returns the place in the hash table with the key's number, or a free place if the key has no number
  /// yet. The search starts at the key's hash.
  std::size_t free_or_equal(const Key& key) const {
    const std::size_t mask = places_.size() - 1;
    std::size_t place = hash(key) & mask;
    while (places_[place] != kFree && !equal(keys_[places_[place]], key)) place = (place + 1) & mask;
    return place;
  }

  static std::size_t hash(const Key& key) {
    std::uint64_t bits = 0;
    for (const std::uint32_t word : key) bits = (bits ^ word) * 0x9e3779b97f4a7c15ULL;
    return mixed(bits);
  }

  void grow() {
    places_.assign(2 * places_.size(), kFree);
    for (std::uint32_t number = 0; number < keys_.size(); ++number)
      places_[free_or_equal(keys_[number])] = number;
  }

  std::vector<Key> keys_;              // key of each number
  std::vector<std::uint32_t> places_;  // hash table; its size is a power of two
};

/// The instructions of a tape while it is written. Instructions are narrow until a class number exceeds 16
/// bits. Then all of them become wide.
class TapeCode {
 public:
  void reserve(std::size_t instructions) { narrow_.reserve(instructions); }
  std::size_t size() const { return !is_wide_ ? narrow_.size() : wide_.size(); }

  void add(Register a, Register b, Register d, std::uint32_t duration, std::uint32_t link) {
    if (!is_wide_ && fits(duration | link)) [[likely]] {
      narrow_.emplace_back(a, b, d, static_cast<std::uint16_t>(duration), static_cast<std::uint16_t>(link));
    } else {
      add_wide({.a = a, .b = b, .d = d, .duration = duration, .link = link});
    }
  }

  Register last_clock() const { return !is_wide_ ? narrow_.back().a : wide_.back().a; }
  Register last_message() const { return !is_wide_ ? narrow_.back().d : wide_.back().d; }
  std::uint32_t last_duration() const { return !is_wide_ ? narrow_.back().duration : wide_.back().duration; }
  /// Sets the register `d` of the last instruction, into which its message writes its arrival time.
  void send_along(Register d) { (!is_wide_ ? narrow_.back().d : wide_.back().d) = d; }
  /// Makes the last instruction send a message. Sets its register `d`, into which the message writes its
  /// arrival time, and its link class.
  void send_along(Register d, std::uint32_t link) {
    send_along(d);
    if (!fits(link)) widen();
    if (!is_wide_) {
      narrow_.back().link = static_cast<std::uint16_t>(link);
    } else {
      wide_.back().link = link;
    }
  }

  std::variant<std::vector<NarrowInstruction>, std::vector<WideInstruction>> instructions() && {
    if (!is_wide_) return std::move(narrow_);
    return std::move(wide_);
  }

 private:
  static bool fits(std::uint32_t number) { return number <= std::numeric_limits<std::uint16_t>::max(); }

  [[gnu::noinline]] void add_wide(const WideInstruction& instruction) {
    widen();
    wide_.push_back(instruction);
  }

  /// Makes all instructions wide. With two sizes in one tape, a pass would have to check the size of each
  /// instruction.
  [[gnu::noinline]] void widen() {
    if (is_wide_) return;
    is_wide_ = true;
    wide_.reserve(narrow_.capacity());
    for (const NarrowInstruction& step : narrow_)
      wide_.emplace_back(step.a, step.b, step.d, step.duration, step.link);
    narrow_ = {};
  }

  bool is_wide_ = false;
  std::vector<NarrowInstruction> narrow_;
  std::vector<WideInstruction> wide_;  // contains all instructions if `is_wide_`
};

/// A numbering of duration and link classes in the order of their first use. Each new class is added to the
/// tape. Each call takes constant time.
class TapeClasses {
 public:
  /// Adds the first classes of a program with `ranks` ranks to the tape. The tape must outlive this object.
  TapeClasses(const MicrobatchGroups& groups, std::int32_t ranks, Tape& tape);

  /// Returns the duration class of a group of compute actions, or of a collective. Adds the class to the tape
  /// if it is new.
  std::uint32_t duration_of(std::span<const Action> group) {
    if (group.size() > 1) return longer_group(group);
    const std::uint32_t place = place_of(group.front());
    if (place < single_.size() && single_[place] != kNoClass) return single_[place];
    return new_single(place, group);
  }

  /// Returns the duration class of a launch by a host. Adds the class to the tape if it is new.
  std::uint32_t launch() {
    if (launch_ == kNoClass) launch_ = new_duration({}, true);
    return launch_;
  }

  /// Returns the link class of instructions that raise register `a` and send no message. For the clock of
  /// rank r, this is class r.
  std::uint32_t link_of_none(Register a) { return a < ranks_ ? a : link_of_further(a); }

 private:
  static constexpr std::uint32_t kNoClass = 0xffff'ffff;

  std::uint32_t link_of_further(Register a);
  std::uint32_t new_single(std::uint32_t place, std::span<const Action> group);
  std::uint32_t longer_group(std::span<const Action> group);
  std::uint32_t new_duration(std::span<const Action> actions, bool launches);

  std::uint32_t place_of(const Action& action) const {
    return static_cast<std::uint32_t>(groups_.place_of(action) * kActionKindCount) +
           static_cast<std::uint32_t>(action.kind);
  }

  MicrobatchGroups groups_;
  Register ranks_;
  Tape& tape_;
  // Duration class of each single action, by its group of microbatches, its stage and its kind.
  std::vector<std::uint32_t> single_;
  // A numbering of groups with at least two actions. The key of a group has three parts: the count of the
  // actions before the last one, the number of these actions as a group, and the last action.
  Numbering<3> longer_;
  std::vector<std::uint32_t> of_longer_;
  std::uint32_t launch_ = kNoClass;
  // For each register after the ranks' clocks, its link class without a message.
  std::vector<std::uint32_t> unlinked_;
};

/// The transfer class and the link class of each route, indexed by route number.
struct WayRegisters {
  std::vector<TransferClass> transfers;
  std::vector<LinkClass> links;
  Register queue_count = 0;  ///< number of registers of the queues
  bool both_ends = false;    ///< true if c and e differ for some link
};

/// A numbering of the routes of messages, in the order of first use. A route leads from one rank to another
/// for one stage edge and direction. Each group of microbatches has its own routes.
class MessageWays {
 public:
  /// Creates an object without routes. `ways` is the expected number of routes.
  MessageWays(const ChannelOptions& channels, const MicrobatchGroups& groups, std::size_t ways);

  /// Returns the number of a message's route, in constant time. `eager` is true if the message is eager.
  std::uint32_t of(const TransferClass& message, bool eager) {
    const std::size_t place = 4 * groups_.place_of(message.send) +
                              2 * static_cast<std::size_t>(flow_of(message.send.kind)) +
                              static_cast<std::size_t>(eager);
    if (place < recent_.size() && recent_[place].is_of(message)) return recent_[place].way;
    return find(message, eager, place);
  }
  /// Records that a message waits in the receiver's queue behind an eager message of the route.
  void queue_eager(std::uint32_t way) { ways_[way].is_of_queue = true; }
  std::size_t size() const { return ways_.size(); }

  /// Assigns registers to the queues, beginning with register `first`. All messages must have been added
  /// before. Two queues get one register if they are the two ends of the same messages.
  WayRegisters in_registers(Register first) &&;

 private:
  static constexpr std::uint32_t kNoQueue = 0xffff'ffff;
  static constexpr std::uint32_t kSeveral = kNoQueue - 1;

  struct Way {
    std::uint32_t sender = 0;  // numbers of the two queues
    std::uint32_t receiver = 0;
    bool eager = false;
    bool is_of_queue = false;  // true if some message counts for the receiver's queue
  };
  struct Queue {
    // The queue that all its messages pass at their other end; kSeveral if there are several.
    std::uint32_t across = kNoQueue;
    // The queue whose register this queue uses: itself, or the queue at the other end.
    std::uint32_t stands_for = 0;
  };
  /// The most recent route for a stage, a group of microbatches and a flow (activations or gradients). Eager
  /// messages have an entry of their own. The next message with the same properties usually has this route.
  struct Recent {
    std::int32_t from_rank = -1;
    std::int32_t to_rank = -1;
    std::int32_t peer = kNoPeer;
    std::uint32_t way = 0;

    bool is_of(const TransferClass& message) const {
      return from_rank == message.from_rank && to_rank == message.to_rank && peer == message.send.peer;
    }
  };

  std::uint32_t find(const TransferClass& message, bool eager, std::size_t place);
  void add_way(const TransferClass& message, bool eager);
  std::uint32_t queue_at(std::int32_t rank, const MessageEnd& end);
  void pair_queues();
  void note(std::uint32_t queue, std::uint32_t across);

  ChannelOptions channels_;
  MicrobatchGroups groups_;
  std::vector<TransferClass> transfers_;
  std::vector<Way> ways_;
  std::vector<Queue> queues_;
  // Recent route of each sending stage, group of microbatches and flow, for eager and other messages.
  std::vector<Recent> recent_;
  Numbering<4> numbers_;        // number of each route, by sender, receiver, index in recent_, and peer
  Numbering<2> queue_numbers_;  // number of each queue, by rank and number at the rank
  Numbering<2> edges_;
};

/// A record of the instructions that send messages, collected while a tape is written. It decides if
/// messages may wait for their queues.
class QueueSenders {
 public:
  /// Records a message that leaves when an action of the sending rank ends. `duration` is the action's
  /// duration class.
  void add(std::uint32_t duration) {
    if (duration >= sends_.size()) sends_.resize(duration + 1, false);
    sends_[duration] = true;
  }
  /// Records a message that leaves at another time than the end of an action.
  void add_other() { only_clocks_ = false; }

  /// Returns the value of Tape::senders for `tape`, which must have all its links. Takes O(classes).
  std::optional<std::vector<std::uint32_t>> of(const Tape& tape) const;

 private:
  bool only_clocks_ = true;
  std::vector<bool> sends_;  // true for duration classes whose instructions send messages
};

/// Returns the queues that a pass over the tape must model. The result holds for any register values at the
/// start of a pass. `durations` has one element for each duration class. If it is empty, instructions may
/// take any time. Takes O(classes).
QueuesFollowed queues_followed(const Tape& tape, std::span<const PricedLink> links,
                               std::span<const Ns> durations);

// Runs the instructions of a tape on an array of registers. The instructions of one rank form a chain,
// because each needs the result of the previous one. A step of a chain costs a load, two maxima, an
// addition and a store. The tape interleaves the chains of several ranks, so that a processor works on
// several at once. If no message ever waits for a queue, the loop skips the queues, which halves the cost.

/// Returns the registers at the start of the first pass, which are all 0.
inline std::vector<Ns> fresh_registers(const Tape& tape) { return std::vector<Ns>(tape.register_count, 0); }

// The source of durations in a pass, which is chosen at compile time: one duration for each class, or one for
// each instruction. queues_followed() reads `by_class`. If `by_class` is empty, durations may have any value.
struct FromClasses {
  std::span<const Ns> by_class;
  Ns operator()(std::size_t /*number*/, std::uint32_t duration) const { return by_class[duration]; }
};
struct FromStream {
  const Ns* by_instruction;
  std::span<const Ns> by_class{};  // is always empty, which means that durations may have any value
  Ns operator()(std::size_t number, std::uint32_t /*duration*/) const { return by_instruction[number]; }
};

/// Runs the instructions of a tape. For each instruction, it calls `see` with its number, its x and y
/// (tape.hpp), and its link. `v` holds the registers.
template <QueuesFollowed kQueues, class Code, class Durations, class See>
void run_loop(const Code& code, const PricedLink* links, const Durations& duration, Ns* v, const See& see) {
  for (std::size_t i = 0; i < code.size(); ++i) {
    const auto& step = code[i];
    const Ns x = std::max(v[step.a], v[step.b]) + duration(i, step.duration);
    v[step.a] = x;
    const PricedLink& link = links[step.link];
    Ns start = x;
    if constexpr (kQueues != QueuesFollowed::none) start = std::max(start, v[link.c]);
    if constexpr (kQueues == QueuesFollowed::both_ends) start = std::max(start, v[link.e]);
    const Ns y = start + link.hold_ns;
    if constexpr (kQueues != QueuesFollowed::none) v[link.c] = y;
    if constexpr (kQueues == QueuesFollowed::both_ends) v[link.e] = y;
    v[step.d] = y + link.latency_ns;
    see(i, x, y, link);
  }
}

/// Runs a tape with the initial register values `v`, and returns their values at the end.
template <class Durations, class See>
std::vector<Ns> run_tape(const Tape& tape, const TapeCosts& costs, const Durations& durations, const See& see,
                         std::vector<Ns> v) {
  std::visit(
      [&](const auto& code) {
        switch (queues_followed(tape, costs.links, durations.by_class)) {
          case QueuesFollowed::none:
            return run_loop<QueuesFollowed::none>(code, costs.links.data(), durations, v.data(), see);
          case QueuesFollowed::one_end:
            return run_loop<QueuesFollowed::one_end>(code, costs.links.data(), durations, v.data(), see);
          case QueuesFollowed::both_ends:
            return run_loop<QueuesFollowed::both_ends>(code, costs.links.data(), durations, v.data(), see);
        }
      },
      tape.code);
  return v;
}

template <class Durations, class See>
std::vector<Ns> run_tape(const Tape& tape, const TapeCosts& costs, const Durations& durations,
                         const See& see) {
  return run_tape(tape, costs, durations, see, fresh_registers(tape));
}

/// Runs a tape, and calls `see` with the number and the times of each instruction.
template <class See>
void run_timed(const Tape& tape, const TapeCosts& costs, const See& see) {
  std::visit(
      [&](const auto& code) {
        run_tape(tape, costs, FromClasses{costs.durations},
                 [&](std::size_t number, Ns x, Ns y, const PricedLink& link) {
                   see(number, InstructionTimes{.start_ns = x - costs.durations[code[number].duration],
                                                .end_ns = x,
                                                .message_start_ns = y - link.hold_ns,
                                                .arrival_ns = y + link.latency_ns});
                 });
      },
      tape.code);
}

}  // namespace penstock

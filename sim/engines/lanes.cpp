// Runs a tape with eight tables of costs at once. A pass over a tape spends its time on loads and on the
// chain of maxima. With the times of eight tables in one vector, an instruction is loaded once for all eight.
//
//   register r:  | lane 0 | lane 1 | ... | lane 7 |   64 bytes, one cache line
//
// The program chooses the vector code at run time, so one build serves all processors.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/lane_loop.hpp"
#include "sim/engines/tape.hpp"
#include "sim/engines/tape_writer.hpp"

namespace penstock {

namespace {

static_assert(sizeof(LaneLine) == kLaneBytes);

/// The number of instructions in one call of FillDurations. Their durations fit in the first-level cache.
constexpr std::size_t kBlock = 256;

/// The meaning of one element in a list of durations. It has the durations of one duration class, or of one
/// instruction.
enum class Durations : std::uint8_t { by_class, by_instruction };

struct Code {
  std::string_view name;
  void (*run)(const LaneRun&);
};

Code choose_code() {
#ifdef PENSTOCK_X86_LANES
  if (__builtin_cpu_supports("avx512f")) return {"avx512", run_lanes_avx512};
  if (__builtin_cpu_supports("avx2")) return {"avx2", run_lanes_avx2};
#endif
  return {"portable", run_lanes_portable};
}

const Code& code() {
  static const Code chosen = choose_code();
  return chosen;
}

/// Returns the links with the times of tables[l] in lane l. Lanes without a table get the times of the last
/// table.
std::vector<LaneLink> lane_links(std::span<const TapeCosts> tables, QueuesFollowed queues) {
  std::vector<LaneLink> links(tables[0].links.size());
  for (std::size_t number = 0; number < links.size(); ++number) {
    LaneLink& link = links[number];
    link.c = tables[0].links[number].c;
    link.e = tables[0].links[number].e;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const PricedLink& priced = tables[std::min(lane, tables.size() - 1)].links[number];
      link.hold_ns[lane] = priced.hold_ns;
      link.latency_ns[lane] = priced.latency_ns;
      // If the pass does not follow queues, only the arrival matters. The loop then needs one addition only.
      if (queues == QueuesFollowed::none) link.latency_ns[lane] += priced.hold_ns;
    }
  }
  return links;
}

/// Returns the queues that a pass over the tape must follow, so that the times for all tables of costs are
/// exact.
QueuesFollowed followed_by_lanes(const Tape& tape, std::span<const TapeCosts> tables, Durations are) {
  QueuesFollowed most = QueuesFollowed::none;
  for (const TapeCosts& table : tables) {
    const std::span<const Ns> durations =
        are == Durations::by_class ? std::span(table.durations) : std::span<const Ns>();
    most = std::max(most, queues_followed(tape, table.links, durations));
  }
  return most;
}

/// The registers of all lanes. A lane is one of the eight runs that are computed at once. run() executes
/// instructions of a tape for all lanes.
class LanePass {
 public:
  /// Prepares a pass. `are` is the meaning of the durations that the caller will pass to run().
  LanePass(const Tape& tape, std::span<const TapeCosts> tables, Durations are)
      : tape_(tape),
        are_(are),
        queues_(followed_by_lanes(tape, tables, are)),
        links_(lane_links(tables, queues_)),
        registers_(tape.register_count) {}

  /// Runs `count` instructions, beginning with number `first`. `durations` has kLanes times for each duration
  /// class, or for each of these instructions.
  void run(std::size_t first, std::size_t count, std::span<const LaneLine> durations) {
    LaneRun pass{.size = count,
                 .queues = queues_,
                 .is_stream = are_ == Durations::by_instruction,
                 .durations = durations.data()->of.data(),
                 .links = links_.data(),
                 .registers = registers_.data()->of.data()};
    if (const auto* narrow = std::get_if<std::vector<NarrowInstruction>>(&tape_.code)) {
      pass.narrow = narrow->data() + first;
    } else {
      pass.wide = std::get<std::vector<WideInstruction>>(tape_.code).data() + first;
    }
    code().run(pass);
  }

  LaneTimes latest() const {
    LaneTimes latest = registers_[tape_.last].of;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(tape_.rank_count); ++rank) {
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        latest[lane] = std::max(latest[lane], registers_[rank].of[lane]);
    }
    return latest;
  }

 private:
  const Tape& tape_;
  Durations are_;
  QueuesFollowed queues_;
  std::vector<LaneLink> links_;
  std::vector<LaneLine> registers_;
};

}  // namespace

LaneTimes makespans_ns(const Tape& tape, std::span<const TapeCosts> tables) {
  std::vector<LaneLine> durations(tape.durations.size());
  for (std::size_t number = 0; number < durations.size(); ++number) {
    for (std::size_t lane = 0; lane < tables.size(); ++lane)
      durations[number].of[lane] = tables[lane].durations[number];
  }
  LanePass pass(tape, tables, Durations::by_class);
  pass.run(0, tape.size(), durations);
  LaneTimes makespans = pass.latest();
  // Lanes without a table have run with durations of 0, so their makespans have no meaning.
  std::fill(makespans.begin() + static_cast<std::ptrdiff_t>(tables.size()), makespans.end(), 0);
  return makespans;
}

LaneTimes makespans_ns(const Tape& tape, const TapeCosts& costs, const FillDurations& fill) {
  LanePass pass(tape, {&costs, 1}, Durations::by_instruction);
  std::vector<LaneLine> block(kBlock);
  for (std::size_t first = 0; first < tape.size(); first += kBlock) {
    const std::size_t count = std::min(kBlock, tape.size() - first);
    fill(first, std::span(block).first(count));
    pass.run(first, count, block);
  }
  return pass.latest();
}

std::string_view lane_code() { return code().name; }

// Runs on any processor: the compiler splits each vector of eight times into vectors that the processor has.

void run_lanes_portable(const LaneRun& run) { run_loop(run); }

}  // namespace penstock

#pragma once
// Computes facts from the spans of one rank. They are the messages for which each compute action waited, the
// reasons for idle time, and the amounts that the rank holds over time. metrics.hpp, compare.hpp and
// sim/memory use them. The file begins with a table by stage and unit (a microbatch, or a slice of one).

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// A table with a value for each stage and unit (a microbatch, or a slice of one). Only stages that were used
/// take memory, because a rank has few stages with many units each. The values of consecutive units are in a
/// vector. Units with far larger numbers are in a hash table, for example if one of many replicas runs only
/// some units. Memory: O(largest stage + used units).
template <class Value>
class StageUnitTable {
 public:
  /// Creates an empty table. `unknown` is the value of a unit (microbatch or slice) that has not been set.
  explicit StageUnitTable(Value unknown = {}) : unknown_(std::move(unknown)) {}

  /// Returns the value of a unit. The reference is valid until the next call with another stage or unit.
  /// Requires stage >= 0 and unit >= 0.
  Value& at(std::int32_t stage, std::int32_t unit) {
    if (index(stage) < row_of_stage_.size() && row_of_stage_[index(stage)] != kNoRow) {
      std::vector<Value>& near = rows_[index(row_of_stage_[index(stage)])].near;
      if (index(unit) < near.size()) [[likely]]
        return near[index(unit)];
    }
    return made_at(stage, unit);
  }

 private:
  static constexpr std::int32_t kNoRow = -1;
  static constexpr std::size_t kAlwaysNear = 64;

  /// The values of one stage, by unit (microbatch or slice).
  struct Row {
    std::vector<Value> near;  ///< the values of small unit numbers, by unit
    std::unordered_map<std::int32_t, Value> far;
  };

  /// Returns the value of a unit that is not in a vector yet. Creates the value, or finds it in the hash
  /// table.
  Value& made_at(std::int32_t stage, std::int32_t unit) {
    if (index(stage) >= row_of_stage_.size()) row_of_stage_.resize(index(stage) + 1, kNoRow);
    std::int32_t& number = row_of_stage_[index(stage)];
    if (number == kNoRow) {
      number = static_cast<std::int32_t>(rows_.size());
      rows_.emplace_back();
    }
    Row& row = rows_[index(number)];
    if (index(unit) < 2 * row.near.size() + kAlwaysNear) {
      lengthen(row, index(unit) + 1);
      return row.near[index(unit)];
    }
    return row.far.try_emplace(unit, unknown_).first->second;
  }

  /// Makes the vector of a stage longer. Moves the units that now fit into the vector out of the hash
  /// table.
  void lengthen(Row& row, std::size_t length) {
    row.near.resize(length, unknown_);
    std::erase_if(row.far, [&](auto& entry) {
      const bool is_near = index(entry.first) < length;
      if (is_near) row.near[index(entry.first)] = std::move(entry.second);
      return is_near;
    });
  }

  Value unknown_;
  std::vector<std::int32_t> row_of_stage_;
  std::vector<Row> rows_;
};

/// The spans of one rank in program order.
using Spans = std::span<const Span>;

/// Returns the spans of each rank, indexed by rank. `timeline` must outlive the result.
std::vector<Spans> spans_by_rank(const Timeline& timeline);

/// Returns true if spans[i] is a compute action, but not the second action of an overlapped pair.
inline bool opens_compute(Spans spans, std::size_t i) {
  return is_compute(spans[i].action.kind) && (i == 0 || !spans[i - 1].action.overlaps_next);
}

/// Returns the time in [from, to) during which at least one span is active. Sorts the spans by start.
Ns covered_ns(std::span<const Span*> spans, Ns from, Ns to);

/// A finder of the messages for which each compute action waits, including the messages of the WAITs before
/// the action. The caller adds the spans of one rank in program order.
class Arrivals {
 public:
  /// Prepares the search for one rank. `spans` are all spans of the rank. The constructor only checks if they
  /// contain WAITs.
  Arrivals(RecomputeTiming recompute, Spans spans);

  /// Adds the next span of the rank.
  void add(const Span& span);
  /// Returns the messages for which the action at spans[i] waits. If an overlapped pair begins there, it
  /// returns the messages of both actions. The result is valid until the next call.
  std::span<const Span*> of_group(Spans spans, std::size_t i);

 private:
  /// A RECV, and the index of the previous RECV of the same stage, unit and direction.
  struct Received {
    const Span* span = nullptr;
    std::int32_t before = -1;
  };
  void add_wait(const Span& span);
  /// Adds the messages for which one action waits: all RECVs of its input, and its collective if its kind
  /// needs one.
  void gather(const Action& leaf);

  RecomputeTiming recompute_;
  std::vector<Received> received_;
  // The index in received_ of the newest RECV, by direction, and then by stage and unit.
  StageUnitTable<std::array<std::int32_t, 2>> newest_{{-1, -1}};
  std::map<std::pair<ActionKind, std::int32_t>, const Span*> collectives_;
  bool has_waits_ = false;
  // The SENDs by kind, stage and microbatch (or slice). Filled only if the rank has WAITs.
  std::map<std::tuple<ActionKind, std::int32_t, std::int32_t>, std::vector<const Span*>> sent_;
  std::vector<const Span*> passed_;  // the messages of the WAITs before the next compute action
  std::vector<const Span*> waited_;
};

/// The idle time of a rank directly before one of its compute actions, divided into three parts.
struct IdleBefore {
  /// The index of the action among the rank's spans. For an overlapped pair it is the index of the first
  /// action.
  std::size_t position = 0;
  /// The time during which at least one message that the action needs was under way.
  Ns transfer_ns = 0;
  /// The time from the arrival of the last message that the action needs to the start of the action, as far
  /// as the rank is idle.
  Ns launch_ns = 0;
  /// The time during which no message that the action needs was under way, because other ranks had not sent
  /// them yet.
  Ns waiting_ns = 0;

  Ns idle_ns() const { return transfer_ns + launch_ns + waiting_ns; }
  friend bool operator==(const IdleBefore&, const IdleBefore&) = default;
};

/// Returns the idle time before each compute action or overlapped pair of a rank, in program order. With
/// blocking channels, a rank may also wait for transfers that the action does not need. That time is a part
/// of launch_ns.
std::vector<IdleBefore> idle_before_actions(Spans spans);

// The amounts that a rank holds over time (activations, buffers, weight versions), and the order in which
// they change. Every peak that Penstock reports follows this order.

/// The value of `until_ns` for memory that is not released before the program ends.
inline constexpr Ns kHeldForEver = std::numeric_limits<Ns>::max();
/// The value of `charged_by` for memory that exists before the rank's first action.
inline constexpr std::int32_t kBeforeFirst = -1;

/// An amount of memory that a rank holds for some time. One action charges (allocates) it, and the same or
/// another action releases it.
struct Holding {
  Ns from_ns = 0;
  Ns until_ns = kHeldForEver;
  /// The position, in the rank's program order, of the action that charges the amount.
  std::int32_t charged_by = kBeforeFirst;
  /// The position of the action that releases the amount. It has no meaning if the amount is never
  /// released.
  std::int32_t released_by = kBeforeFirst;
  /// A number >= 0 by which the caller groups holdings, for example by memory category. It should be small.
  std::int32_t kind = 0;
  std::int64_t amount = 1;
};

/// The moment at which one holding is charged or released.
struct HoldingChange {
  Ns time_ns = 0;
  /// The index of the holding in the list that the caller passed.
  std::int32_t holding = 0;
  bool charge = true;
};

/// Returns all charges and releases of the holdings, ordered by time. At one moment, releases of amounts
/// that were charged earlier come first. All other changes follow in program order. A holding that begins
/// and ends at the same moment is charged before it is released.
std::vector<HoldingChange> changes_in_order(std::span<const Holding> holdings);

/// Returns the peak of the holdings, which is the largest sum of amounts that exist at the same time.
std::int64_t peak_amount(std::span<const Holding> holdings);

// Finds the time for which an activation is in the memory of the host, from the OFFLOADs and RELOADs of a
// rank.
//
//   rank     0F0--0F1--0F2--...0B0====
//   sends       |SEND_F0|                      the activation leaves the device at the end of OFFLOAD0, but
//   copies      |OFF0-|     |RELOAD0|          not before its SEND has ended; RELOAD0 charges it again
//   device   |----------|   |---------|
//
// The memory of ranks (sim/memory) and the number of live activations (metrics.cpp) use it. Tests:
// tests/sim/offload_test.cpp.

/// The stay of one activation on the host, between two positions in the rank's spans.
struct HostStay {
  std::int32_t released_by = -1;  ///< the OFFLOAD, or a SEND_F of the activation if one ends later
  std::int32_t reload = -1;       ///< -1 if no RELOAD follows
};

/// The stays of a rank's activations on the host, by stage and unit (a microbatch, or a slice of one).
using HostStays = std::map<std::pair<std::int32_t, std::int32_t>, HostStay>;

/// Returns the stays of all activations that the rank offloads.
HostStays host_stays(Spans spans);

}  // namespace penstock

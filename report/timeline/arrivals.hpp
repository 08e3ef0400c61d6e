#pragma once
// The messages that each compute action of a rank waited for, and the reasons for the rank's idle time before
// it. Both are computed from the spans alone. metrics.hpp, compare.hpp and the backend's calibration use
// them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "report/timeline/stage_unit_table.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The spans of one rank in program order.
using Spans = std::span<const Span>;

/// Returns the spans of each rank. `timeline` must outlive them.
std::vector<Spans> spans_by_rank(const Timeline& timeline);

/// Returns true if spans[i] is a compute action that is not the second leaf of an overlapped pair.
inline bool opens_compute(Spans spans, std::size_t i) {
  return is_compute(spans[i].action.kind) && (i == 0 || !spans[i - 1].action.overlaps_next);
}

/// Returns the part of [from, to) that the spans cover together. Sorts the spans by start.
Ns covered_ns(std::span<const Span*> spans, Ns from, Ns to);

/// A reader of one rank's spans in program order that finds the messages for which each compute action waits.
class Arrivals {
 public:
  explicit Arrivals(RecomputeTiming recompute) : recompute_(recompute) {}

  /// Adds the next span of the rank.
  void add(const Span& span);
  /// Returns the messages for which an action waits: the one at spans[i], or the overlapped pair that begins
  /// there. The result is valid until the next call.
  std::span<const Span*> of_group(Spans spans, std::size_t i);

 private:
  /// A RECV, and the index of the previous RECV of the same stage, unit and direction.
  struct Received {
    const Span* span = nullptr;
    std::int32_t before = -1;
  };
  /// Adds the messages for which one leaf waits: its collective, if its kind needs one, and all RECVs of its
  /// input.
  void gather(const Action& leaf);

  RecomputeTiming recompute_;
  std::vector<Received> received_;
  // by flow: the index in received_ of the newest RECV
  StageUnitTable<std::array<std::int32_t, 2>> newest_{{-1, -1}};
  std::map<std::pair<ActionKind, std::int32_t>, const Span*> collectives_;
  std::vector<const Span*> waited_;
};

/// The idle time of one rank before one of its compute actions. The three parts add up to it.
struct IdleBefore {
  /// The index of the action among the rank's spans; for an overlapped pair, of its first leaf.
  std::size_t position = 0;
  /// The time in which at least one message for which the action waited was under way.
  Ns transfer_ns = 0;
  /// The time after all messages had arrived on an idle rank, until the action started.
  Ns launch_ns = 0;
  /// The time in which none of these messages was under way yet, because other ranks had not sent them.
  Ns waiting_ns = 0;

  Ns idle_ns() const { return transfer_ns + launch_ns + waiting_ns; }
  friend bool operator==(const IdleBefore&, const IdleBefore&) = default;
};

/// Returns the idle time before each compute action or overlapped pair of a rank, in program order. With
/// blocking channels launch_ns also includes the time in which program order waited for transfers that the
/// action did not need.
std::vector<IdleBefore> idle_before_actions(Spans spans);

}  // namespace penstock

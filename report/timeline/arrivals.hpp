#pragma once
// What each compute action of one rank waited for, and what the rank's idle time before it was: read off the
// spans. Used by metrics.hpp, compare.hpp and the backend's calibration.

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

using Spans = std::span<const Span>;

/// The spans of each rank; `timeline` must outlive them.
std::vector<Spans> spans_by_rank(const Timeline& timeline);

/// A compute action, or the first leaf of an overlapped group.
inline bool opens_compute(Spans spans, std::size_t i) {
  return is_compute(spans[i].action.kind) && (i == 0 || !spans[i - 1].action.overlaps_next);
}

/// How much of [from, to) some of the spans cover. Sorts them.
Ns covered_ns(std::span<const Span*> spans, Ns from, Ns to);

/// What a rank's next compute action waits for, gathered while its spans are read in program order.
class Arrivals {
 public:
  explicit Arrivals(RecomputeTiming recompute) : recompute_(recompute) {}

  void add(const Span& span);
  /// The messages that the group waits for whose first leaf is spans[i]. Good until the next call.
  std::span<const Span*> of_group(Spans spans, std::size_t i);

 private:
  /// A RECV, and the one before it of the same stage, unit and direction.
  struct Received {
    const Span* span = nullptr;
    std::int32_t before = -1;
  };
  void gather(const Action& leaf);

  RecomputeTiming recompute_;
  std::vector<Received> received_;
  StageUnitTable<std::array<std::int32_t, 2>> newest_{{-1, -1}};  // by flow: into received_
  std::map<std::pair<ActionKind, std::int32_t>, const Span*> collectives_;
  std::vector<const Span*> waited_;
};

/// The time of one rank before one of its compute actions; the parts add up to the idle time.
struct IdleBefore {
  std::size_t position = 0;  ///< of the action (of a group: its first leaf) in the rank's spans
  Ns transfer_ns = 0;        ///< something that the action waited for was on its way
  Ns launch_ns = 0;          ///< all had arrived and the rank was free, but the action had not started
  Ns waiting_ns = 0;         ///< what it waited for was not on its way yet: other ranks were at it

  Ns idle_ns() const { return transfer_ns + launch_ns + waiting_ns; }
  friend bool operator==(const IdleBefore&, const IdleBefore&) = default;
};

/// One for each compute action (group) of a rank, in program order. With blocking channels launch_ns holds
/// the time, too, for which program order waited for transfers that the action itself did not need.
std::vector<IdleBefore> idle_before_actions(Spans spans);

}  // namespace penstock

#pragma once
// Finds the messages for which each compute action of a rank waited, and the reasons for the idle time before
// it. Both follow from the spans alone. metrics.hpp, compare.hpp and the backend's calibration use it.

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

/// Returns the spans of each rank, indexed by rank. `timeline` must outlive the result.
std::vector<Spans> spans_by_rank(const Timeline& timeline);

/// Returns true if spans[i] is a compute action, but not the second action of an overlapped pair.
inline bool opens_compute(Spans spans, std::size_t i) {
  return is_compute(spans[i].action.kind) && (i == 0 || !spans[i - 1].action.overlaps_next);
}

/// Returns the time in [from, to) during which at least one span is active. Sorts the spans by start.
Ns covered_ns(std::span<const Span*> spans, Ns from, Ns to);

/// A reader that finds the messages for which each compute action waits. The caller adds one rank's spans in
/// program order.
class Arrivals {
 public:
  explicit Arrivals(RecomputeTiming recompute) : recompute_(recompute) {}

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
  /// Adds the messages for which one action waits: all RECVs of its input, and its collective if its kind
  /// needs one.
  void gather(const Action& leaf);

  RecomputeTiming recompute_;
  std::vector<Received> received_;
  // the index in received_ of the newest RECV, by direction (forward or backward)
  StageUnitTable<std::array<std::int32_t, 2>> newest_{{-1, -1}};
  std::map<std::pair<ActionKind, std::int32_t>, const Span*> collectives_;
  std::vector<const Span*> waited_;
};

/// The idle time of one rank before one of its compute actions, divided into three parts.
struct IdleBefore {
  /// The index of the action among the rank's spans. For an overlapped pair it is the index of the first
  /// action.
  std::size_t position = 0;
  /// The time during which at least one message for the action was under way.
  Ns transfer_ns = 0;
  /// The time from the arrival of all messages on the idle rank to the start of the action.
  Ns launch_ns = 0;
  /// The time during which none of these messages was under way, because other ranks had not sent them yet.
  Ns waiting_ns = 0;

  Ns idle_ns() const { return transfer_ns + launch_ns + waiting_ns; }
  friend bool operator==(const IdleBefore&, const IdleBefore&) = default;
};

/// Returns the idle time before each compute action or overlapped pair of a rank, in program order. With
/// blocking channels, a rank may also wait for transfers that the action does not need. launch_ns includes
/// that time.
std::vector<IdleBefore> idle_before_actions(Spans spans);

}  // namespace penstock

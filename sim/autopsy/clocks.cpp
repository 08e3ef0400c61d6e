// Finds the offsets between the clocks of ranks that ran on several hosts. A message cannot arrive before it
// was sent. So messages in both directions bound the offset o of rank b's clock to that of rank a:
//
//   a -> b:  o <= arrival on b - send on a          b -> a:  o >= send on b - arrival on a
//
// The offset is the middle of the two bounds, and its error is half their distance. Pairs of ranks with the
// smallest error are joined first, as in a spanning tree. Clocks drift in a record of more than a minute. In
// this case each half gives one offset, and a line joins the two offsets. If no SENDs and RECVs are recorded,
// the end of the producer and the start of the consumer take their places. Tests: tests/sim/traces_test.cpp.

#include "sim/autopsy/recording.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/print/units.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

using ClockOf = std::pair<std::int64_t, std::int64_t>;  // copy and rank
constexpr Ns kDriftFrom = 60'000'000'000;

/// A linear function that gives the offset of a clock. When this clock shows the time t, the offset is at +
/// slope * (t - from).
struct ClockLine {
  double at = 0;
  double slope = 0;
  double from = 0;
  double error = 0;

  double offset(double time) const { return at + slope * (time - from); }
};

/// The send time of a message by its sender's clock, and its arrival time by its receiver's clock.
struct ClockedMessage {
  Ns sent = 0;
  Ns arrived = 0;
};

/// The messages between two ranks, in both directions.
struct PairMessages {
  std::vector<ClockedMessage> there;
  std::vector<ClockedMessage> back;
};

/// An index of the recorded rows, which finds the times of an action in a step.
class RowIndex {
 public:
  explicit RowIndex(const std::vector<RecordedRow>& rows) {
    for (const RecordedRow& row : rows) {
      for (const Action& action : row.actions) {
        rows_.emplace(std::tuple(row.step.value_or(0), row.copy.value_or(0), action.kind, action.stage,
                                 action.microbatch),
                      &row);
      }
    }
  }
  const RecordedRow* find(const RecordedRow& like, ActionKind kind, std::int32_t stage,
                          std::int32_t microbatch) const {
    const auto found = rows_.find({like.step.value_or(0), like.copy.value_or(0), kind, stage, microbatch});
    return found == rows_.end() ? nullptr : found->second;
  }

 private:
  std::map<std::tuple<std::int64_t, std::int64_t, ActionKind, std::int32_t, std::int32_t>, const RecordedRow*>
      rows_;
};

/// The kinds of the three actions that belong to a message: its SEND, its RECV, and the action that reads its
/// data.
struct MessageKinds {
  ActionKind consumer;
  ActionKind send;
  ActionKind recv;
  std::int32_t to_consumer;  // stage number of the consumer minus that of the producer
};

std::map<std::pair<ClockOf, ClockOf>, PairMessages> messages_of(const std::vector<RecordedRow>& rows) {
  const RowIndex index(rows);
  std::map<std::pair<ClockOf, ClockOf>, PairMessages> pairs;
  for (const RecordedRow& row : rows) {
    for (const Action& action : row.actions) {
      const bool forward = action.kind == ActionKind::forward;
      if (!forward && !makes_input_gradient(action.kind)) continue;
      const MessageKinds kinds =
          forward ? MessageKinds{action.kind, ActionKind::send_forward, ActionKind::recv_forward, 1}
                  : MessageKinds{action.kind, ActionKind::send_backward, ActionKind::recv_backward, -1};
      const std::int32_t stage = action.stage + kinds.to_consumer;
      const RecordedRow* const consumer = index.find(row, kinds.consumer, stage, action.microbatch);
      if (consumer == nullptr || consumer->rank == row.rank) continue;
      ClockedMessage message{.sent = row.end_ns, .arrived = consumer->start_ns};
      if (const RecordedRow* send = index.find(row, kinds.send, action.stage, action.microbatch))
        message.sent = std::max(message.sent, send->start_ns);
      if (const RecordedRow* recv = index.find(row, kinds.recv, stage, action.microbatch))
        message.arrived = std::min(message.arrived, recv->end_ns);
      const ClockOf from{row.copy.value_or(0), row.rank};
      const ClockOf to{row.copy.value_or(0), consumer->rank};
      if (from < to) {
        pairs[{from, to}].there.push_back(message);
      } else {
        pairs[{to, from}].back.push_back(message);
      }
    }
  }
  return pairs;
}

/// The least and the largest possible offset of the second clock of a pair of ranks to the first one.
struct OffsetBounds {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();

  bool is_bounded() const { return std::isfinite(least) && std::isfinite(most); }
  double middle() const { return (least + most) / 2; }
  double error() const { return std::abs(most - least) / 2; }
};

/// Returns bounds of the second clock's offset to the first clock. Uses only the messages whose time on the
/// second clock is in [from, to).
OffsetBounds bounds_of(const PairMessages& messages, Ns from, Ns to) {
  OffsetBounds bounds;
  for (const ClockedMessage& message : messages.there) {
    if (message.arrived >= from && message.arrived < to)
      bounds.most = std::min(bounds.most, static_cast<double>(message.arrived - message.sent));
  }
  for (const ClockedMessage& message : messages.back) {
    if (message.sent >= from && message.sent < to)
      bounds.least = std::max(bounds.least, static_cast<double>(message.sent - message.arrived));
  }
  return bounds;
}

/// Computes the offset of the second rank's clock to the first one's, as a linear function of the second
/// clock's time. Returns nothing unless there are messages in both directions.
std::optional<ClockLine> line_of(const PairMessages& messages) {
  Ns first = std::numeric_limits<Ns>::max();
  Ns last = std::numeric_limits<Ns>::min();
  const auto widen = [&](Ns time) {
    first = std::min(first, time);
    last = std::max(last, time);
  };
  for (const ClockedMessage& message : messages.there) widen(message.arrived);
  for (const ClockedMessage& message : messages.back) widen(message.sent);
  if (first > last) return std::nullopt;
  const OffsetBounds all = bounds_of(messages, first, last + 1);
  if (!all.is_bounded()) return std::nullopt;
  const ClockLine level{.at = all.middle(), .from = static_cast<double>(first), .error = all.error()};
  if (last - first < kDriftFrom) return level;
  const Ns middle = first + (last - first) / 2;
  const OffsetBounds early = bounds_of(messages, first, middle);
  const OffsetBounds late = bounds_of(messages, middle, last + 1);
  if (!early.is_bounded() || !late.is_bounded()) return level;
  const double half = static_cast<double>(last - first) / 2;
  return ClockLine{.at = early.middle(),
                   .slope = (late.middle() - early.middle()) / half,
                   .from = static_cast<double>(first) + half / 2,
                   .error = std::max(early.error(), late.error())};
}

bool arrives_before_sent(const PairMessages& messages) {
  const auto is_early = [](const ClockedMessage& message) { return message.arrived < message.sent; };
  return std::ranges::any_of(messages.there, is_early) || std::ranges::any_of(messages.back, is_early);
}

/// Groups of clocks with known offsets to each other. For each clock, it stores the offset to the first clock
/// of its group.
class JoinedClocks {
 public:
  void add(const ClockOf& clock) {
    group_.emplace(clock, clock);
    line_.emplace(clock, ClockLine{});
  }
  /// Joins the groups of two clocks. `between` is the offset of the clock `second` to the clock `first`.
  void join(const ClockOf& first, const ClockOf& second, const ClockLine& between) {
    const ClockOf kept = group_[first];
    const ClockOf moved = group_[second];
    if (kept == moved) return;
    // The new offset of a clock in the moved group is a sum of three offsets. They are the offset of this
    // clock to `second`, of `second` to `first`, and of `first` to the first clock of its group.
    const ClockLine base = line_[first];
    const ClockLine own = line_[second];
    for (auto& [clock, group] : group_) {
      if (group != moved) continue;
      group = kept;
      ClockLine& line = line_[clock];
      line.at = line.at - own.offset(line.from) + between.offset(line.from) + base.offset(line.from);
      line.slope += between.slope + base.slope - own.slope;
      line.error += between.error + base.error + own.error;
    }
  }
  const std::map<ClockOf, ClockLine>& lines() const { return line_; }

 private:
  std::map<ClockOf, ClockOf> group_;
  std::map<ClockOf, ClockLine> line_;
};

std::string offset_note(const ClockOf& clock, const ClockLine& line) {
  const double at = line.offset(line.from);
  return fmt::format("the clock of rank {} was {} {}, give or take {}", clock.second,
                     format_duration(std::llround(std::abs(at))), at < 0 ? "behind" : "ahead",
                     format_duration(std::llround(line.error)));
}

}  // namespace

AlignedClocks align_clocks(std::vector<RecordedRow>& rows) {
  const auto pairs = messages_of(rows);
  AlignedClocks aligned;
  if (std::ranges::none_of(pairs, [](const auto& pair) { return arrives_before_sent(pair.second); }))
    return aligned;
  struct Edge {
    ClockOf first;
    ClockOf second;
    ClockLine line;
  };
  std::vector<Edge> edges;
  JoinedClocks clocks;
  for (const RecordedRow& row : rows) clocks.add({row.copy.value_or(0), row.rank});
  for (const auto& [pair, messages] : pairs) {
    if (const auto line = line_of(messages)) edges.push_back({pair.first, pair.second, *line});
  }
  std::ranges::stable_sort(edges, {}, [](const Edge& edge) { return edge.line.error; });
  for (const Edge& edge : edges) clocks.join(edge.first, edge.second, edge.line);
  // All ranks of a copy get the clock of the copy's lowest rank.
  std::map<std::int64_t, ClockLine> base;
  for (const auto& [clock, line] : clocks.lines()) base.emplace(clock.first, line);
  const auto offset = [&](const ClockOf& clock, Ns time) {
    const auto at = static_cast<double>(time);
    return clocks.lines().at(clock).offset(at) - base.at(clock.first).offset(at);
  };
  double error = 0;
  for (const auto& [clock, line] : clocks.lines()) {
    ClockLine own = line;
    own.at -= base.at(clock.first).offset(line.from);
    if (std::abs(own.at) < 1 && own.slope == 0) continue;
    error = std::max(error, own.error);
    if (aligned.notes.size() < 32) aligned.notes.push_back(offset_note(clock, own));
  }
  for (RecordedRow& row : rows) {
    const ClockOf clock{row.copy.value_or(0), row.rank};
    const Ns duration = row.end_ns - row.start_ns;
    row.start_ns -= std::llround(offset(clock, row.start_ns));
    row.end_ns = row.start_ns + duration;
  }
  aligned.error_ns = std::llround(error);
  return aligned;
}

}  // namespace penstock

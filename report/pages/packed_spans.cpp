// Packs the spans of a run. First come the actions of each rank in program order, without times. Then come
// the times, which are differences to those that a run without surprises would have:
//
//   an action   starts when the action before it has ended and its message has arrived
//   a message   starts when its producer has ended and its channel is free
//   both        last as long as the last ones of the same kind and stage
//
// For a simulated run nearly all differences are 0. Each expectation uses times that are already known. So
// the times are not written rank by rank: a rank goes on until it needs a message that is not written yet,
// and waits for it while other ranks go on.
//
//   rank 0   F0 SEND_F0 F1 SEND_F1 | waits for RECV_B0                  B0 ...
//   rank 1   | waits for RECV_F0     F0 B0 SEND_B0 | waits ...
//
// report/web/viewer.js goes through the ranks in the same order. A run in which all ranks wait, such as one
// with messages left out, goes on at the first rank as if its message had no time.
#include "report/pages/packed_spans.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/pages/packed_columns.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

/// The key by which the SEND of a message is found: direction, sending stage, receiving stage and
/// microbatch.
using MessageKey = std::tuple<bool, std::int32_t, std::int32_t, std::int32_t>;

MessageKey message_key(const Action& action) {
  const bool forward = action.kind == ActionKind::send_forward || action.kind == ActionKind::recv_forward;
  const bool sends = is_send(action.kind);
  return {forward, sends ? action.stage : action.peer, sends ? action.peer : action.stage, action.microbatch};
}

/// Returns true for the kinds that carry activations on: F and its messages.
bool is_forward(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::send_forward || kind == ActionKind::recv_forward;
}

/// Returns true for the compute kinds that read a message and whose result another stage reads.
bool has_messages(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::backward || kind == ActionKind::backward_input;
}

}  // namespace

Code code_of(const Span& span) {
  return {span.action.kind, span.action.stage, span.action.peer, span.replica, span.action.overlaps_next};
}

HeldSpans held_spans(const Timeline& timeline, std::size_t most_actions) {
  std::vector<Ns> starts;
  for (const Span& span : timeline.spans) {
    if (is_compute(span.action.kind)) starts.push_back(span.start_ns);
  }
  if (starts.size() <= most_actions) return {timeline.spans, std::nullopt};
  std::ranges::sort(starts);
  const Ns from = starts[most_actions / 2];
  const Ns to = starts[starts.size() - most_actions / 2];
  HeldSpans held{.spans = {}, .left_out = std::pair(from, to)};
  for (const Span& span : timeline.spans) {
    if (span.start_ns < from || span.start_ns >= to) held.spans.push_back(span);
  }
  return held;
}

SpanPacker::SpanPacker(const std::vector<Span>& spans, std::int32_t rank_count, PackedColumns& columns)
    : spans_(spans),
      columns_(columns),
      ranks_(index(rank_count)),
      code_(spans.size()),
      link_(spans.size(), -1),
      input_(spans.size(), -1),
      is_written_(spans.size()),
      is_awaited_(spans.size()) {
  std::size_t next = 0;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    ranks_[rank].first = next;
    while (next < spans_.size() && index(spans_[next].rank) == rank) ++next;
    ranks_[rank].end = next;
  }
}

std::vector<PackedRank> SpanPacker::pack() {
  link_messages();
  for (PackedRank& rank : ranks_) {
    pack_actions(rank);
    find_inputs(rank);
    cursors_.push_back({.next = rank.first});
    cursors_.back().lasts.resize(rank.codes);
  }
  pack_times();
  return ranks_;
}

/// Joins the first SEND with a key and the last RECV with this key.
void SpanPacker::link_messages() {
  std::map<MessageKey, std::int32_t> sends;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    if (is_send(spans_[i].action.kind))
      sends.try_emplace(message_key(spans_[i].action), static_cast<std::int32_t>(i));
  }
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    if (!is_recv(spans_[i].action.kind)) continue;
    const auto send = sends.find(message_key(spans_[i].action));
    if (send == sends.end()) continue;
    link_[i] = send->second;
    link_[index(send->second)] = static_cast<std::int32_t>(i);
  }
}

/// Writes the actions of a rank without their times.
void SpanPacker::pack_actions(PackedRank& rank) {
  std::map<Code, LastOfCode> lasts;
  std::int64_t context = 0;  // the last three numbers of codes
  std::int32_t group = -1;   // the last compute span
  for (std::size_t i = rank.first; i < rank.end; ++i) {
    const Span& span = spans_[i];
    const auto [entry, is_new] = lasts.try_emplace(code_of(span));
    LastOfCode& last = entry->second;
    if (is_new) {
      last.number = static_cast<std::int32_t>(rank.codes++);
      if (codes_before_.size() < rank.codes) codes_before_.emplace_back();
      pack_code(span, codes_before_[rank.codes - 1]);
    }
    code_[i] = last.number;
    std::int32_t& expected = next_code_[context];
    columns_.put(Column::code, last.number == expected ? 0 : last.number + 1);
    expected = last.number;
    context = (context % (1 << 20)) * 1024 + last.number % 1024;
    if (has_microbatch(span.action.kind)) {
      columns_.put_signed(Column::microbatch, span.action.microbatch - last.microbatch - 1);
      last.microbatch = span.action.microbatch;
    }
    columns_.put_signed(Column::version, span.action.weight_version - last.version);
    last.version = span.action.weight_version;
    if (!is_compute(span.action.kind)) continue;
    if (group < 0 || !spans_[index(group)].action.overlaps_next)
      rank.groups.push_back(static_cast<std::int32_t>(i));
    group = static_cast<std::int32_t>(i);
  }
  std::ranges::stable_sort(rank.groups, {}, [&](std::int32_t i) { return spans_[index(i)].start_ns; });
}

/// Writes the code of a rank as the differences to the code with the same number of the rank before, which
/// is usually the same for another stage.
void SpanPacker::pack_code(const Span& span, std::array<std::int32_t, 5>& before) {
  const std::array<std::int32_t, 5> code = {static_cast<std::int32_t>(span.action.kind), span.action.stage,
                                            span.action.peer, span.replica,
                                            span.action.overlaps_next ? 1 : 0};
  for (std::size_t k = 0; k < code.size(); ++k) columns_.put_signed(Column::rank_codes, code[k] - before[k]);
  before = code;
}

/// Finds the RECV of each compute span of a rank, and the compute span that produces each SEND. Both are
/// earlier in the rank's list.
void SpanPacker::find_inputs(const PackedRank& rank) {
  using Key = std::tuple<bool, std::int32_t, std::int32_t>;
  std::map<Key, std::int32_t> received;
  std::map<Key, std::int32_t> produced;
  for (std::size_t i = rank.first; i < rank.end; ++i) {
    const Action& action = spans_[i].action;
    const Key key{is_forward(action.kind), action.stage, action.microbatch};
    if (is_recv(action.kind)) {
      received[key] = static_cast<std::int32_t>(i);
    } else if (has_messages(action.kind)) {
      const auto found = received.find(key);
      if (found != received.end()) input_[i] = found->second;
      produced[key] = static_cast<std::int32_t>(i);
    } else if (is_send(action.kind)) {
      const auto found = produced.find(key);
      if (found != produced.end()) input_[i] = found->second;
    }
  }
}

void SpanPacker::pack_times() {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) ready_.push_back(rank);
  std::size_t unfinished = 0;
  for (std::size_t next = 0;; ++next) {
    if (next < ready_.size()) {
      advance(ready_[next], false);
      continue;
    }
    while (unfinished < ranks_.size() && cursors_[unfinished].next == ranks_[unfinished].end) ++unfinished;
    if (unfinished == ranks_.size()) return;
    advance(unfinished, true);
    --next;
  }
}

/// Writes the times of a rank's spans up to the first one that needs a message that is not written yet. If
/// `is_forced` is true, the first span does not wait.
void SpanPacker::advance(std::size_t rank, bool is_forced) {
  Cursor& cursor = cursors_[rank];
  const std::size_t end = ranks_[rank].end;
  for (; cursor.next < end; ++cursor.next) {
    const std::size_t i = cursor.next;
    const ActionKind kind = spans_[i].action.kind;
    if (is_recv(kind) && is_linked(static_cast<std::int32_t>(i))) continue;  // is written with its SEND
    if (opens_group(cursor, i) && waits(i, end) && !is_forced) return;
    is_forced = false;
    pack_span(cursor, i, end);
    if (is_send(kind) && link_[i] >= 0) pack_receive(i);
    if (is_compute(kind)) cursor.group = static_cast<std::int32_t>(i);
  }
}

/// Returns whether a compute group needs a message that is not written yet, and marks this message.
bool SpanPacker::waits(std::size_t span, std::size_t end) {
  for (std::size_t leaf = span; leaf < end; ++leaf) {
    const std::int32_t input = input_[leaf];
    if (input >= 0 && is_linked(input) && !is_written_[index(input)]) {
      is_awaited_[index(input)] = 1;
      return true;
    }
    if (!spans_[leaf].action.overlaps_next) break;
  }
  return false;
}

void SpanPacker::pack_span(Cursor& cursor, std::size_t i, std::size_t end) {
  const Span& span = spans_[i];
  const auto kind = static_cast<std::size_t>(span.action.kind);
  std::optional<LastTimes>& entry = cursor.lasts[index(code_[i])];
  LastTimes last = entry ? *entry : last_of_kind_[kind];
  columns_.put_signed(Column::start, span.start_ns - expected_start(cursor, i, end));
  const Ns duration = span.end_ns - span.start_ns;
  columns_.put_signed(Column::duration, duration - last.duration);
  last.duration = duration;
  if (is_send(span.action.kind)) {
    const Ns hold = span.released_ns == kNotReleased ? -1 : span.released_ns - span.start_ns;
    columns_.put_signed(Column::release, hold - last.hold);
    last.hold = hold;
    if (hold >= 0 && link_[i] >= 0) channel_free_[channel_of(i)] = span.released_ns;
  }
  entry = last_of_kind_[kind] = last;
  is_written_[i] = 1;
}

/// Writes the times of the RECV of a message as differences to the times of its SEND, which are usually
/// equal.
void SpanPacker::pack_receive(std::size_t send) {
  const std::size_t receive = index(link_[send]);
  columns_.put_signed(Column::start, spans_[receive].start_ns - spans_[send].start_ns);
  columns_.put_signed(Column::duration, spans_[receive].end_ns - spans_[send].end_ns);
  is_written_[receive] = 1;
  if (is_awaited_[receive]) ready_.push_back(index(spans_[receive].rank));
}

/// Returns the time at which a span is expected to start.
Ns SpanPacker::expected_start(const Cursor& cursor, std::size_t i, std::size_t end) const {
  const bool has_group = cursor.group >= 0;
  Ns expected = has_group ? spans_[index(cursor.group)].end_ns : 0;
  const ActionKind kind = spans_[i].action.kind;
  if (is_compute(kind)) {
    if (!opens_group(cursor, i)) return spans_[index(cursor.group)].start_ns;
    for (std::size_t leaf = i; leaf < end; ++leaf) {
      const std::int32_t input = input_[leaf];
      if (input >= 0 && is_written_[index(input)]) expected = std::max(expected, spans_[index(input)].end_ns);
      if (!spans_[leaf].action.overlaps_next) break;
    }
  } else if (is_send(kind)) {
    if (input_[i] >= 0) expected = spans_[index(input_[i])].end_ns;
    const auto free = channel_free_.find(channel_of(i));
    if (free != channel_free_.end()) expected = std::max(expected, free->second);
  }
  return expected;
}

bool SpanPacker::is_linked(std::int32_t receive) const {
  const std::int32_t send = link_[index(receive)];
  return send >= 0 && link_[index(send)] == receive;
}

bool SpanPacker::opens_group(const Cursor& cursor, std::size_t i) const {
  return is_compute(spans_[i].action.kind) &&
         (cursor.group < 0 || !spans_[index(cursor.group)].action.overlaps_next);
}

/// Returns the number of the channel of a message, which is expected to be one for each ordered pair of
/// ranks.
std::int64_t SpanPacker::channel_of(std::size_t send) const {
  const std::int32_t receive = link_[send];
  const std::int64_t to = receive >= 0 ? spans_[index(receive)].rank : -1;
  return std::int64_t{spans_[send].rank} * static_cast<std::int64_t>(ranks_.size()) + to;
}

}  // namespace penstock

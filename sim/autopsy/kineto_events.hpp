#pragma once
// The events of a profiler trace that Penstock reads: ranges of actions, operators of the host, calls that
// launch kernels, and kernels.

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/autopsy/kineto.hpp"

namespace penstock {

struct TraceEvent {
  Ns start_ns = 0;
  Ns end_ns = 0;
  std::int64_t thread = -1;
  std::int64_t correlation = -1;  ///< joins a kernel with the call that launched it; -1 if absent
  std::int64_t sequence = -1;     ///< joins an operator with its backward pass; -1 if absent
  bool communicates = false;
  bool receives = false;
  bool is_backward = false;
};

/// A marked range in the host's part of a trace. Its name is that of an action or of an overlapped group.
struct ActionRange {
  TraceEvent event;
  std::vector<Action> actions;
};

struct TraceEvents {
  std::vector<ActionRange> ranges;
  std::vector<std::pair<TraceEvent, std::int64_t>> steps;  ///< "ProfilerStep#3" with its number
  std::vector<TraceEvent> operators;
  std::vector<TraceEvent> launches;
  std::vector<TraceEvent> kernels;
};

/// Adds an event of the host. Its name decides if it is a range or an operator.
void add_host_event(TraceEvents& events, TraceEvent event, std::string_view name);
/// Adds a kernel of a GPU. Its name says whether it communicates.
void add_kernel(TraceEvents& events, TraceEvent kernel, std::string_view name);

/// Returns the trace of a rank. It has a row for each range of an action. If the trace has no such ranges, it
/// has blocks instead.
RankTrace rank_trace_of(TraceEvents events, std::int64_t rank);

/// Adds a time to the times of all events.
void move_times(TraceEvents& events, Ns by_ns);

/// Returns the blocks of forward and backward operators between two communications. If the operators
/// launched kernels, a block lasts from the start of its first kernel to the end of its last one.
std::vector<TraceBlock> blocks_of(TraceEvents& events);

}  // namespace penstock

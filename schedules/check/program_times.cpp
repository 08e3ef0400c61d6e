
#include "schedules/check/program_times.hpp"

#include <algorithm>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

ProgramTimes empty_times(const FlatProgram& flat) {
  return {.start = std::vector<Ns>(flat.ops.size(), 0),
          .end = std::vector<Ns>(flat.ops.size(), 0),
          .message_start = std::vector<Ns>(flat.messages.size(), 0),
          .message_end = std::vector<Ns>(flat.messages.size(), 0)};
}

Ns last_end(const ProgramTimes& times) {
  Ns last = 0;
  for (const Ns end : times.end) last = std::max(last, end);
  for (const Ns end : times.message_end) last = std::max(last, end);
  return last;
}

}  // namespace penstock

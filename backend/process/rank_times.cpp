// Converts between the times of one rank and the times of the whole program. A rank's positions are one range
// of the program's positions, but the numbers of its messages are scattered:
//
//     positions   |  rank 0  |  rank 1  | ..        messages   0 . . 1 . 1 0 . ..
//
// Both lists are sent without numbers, because each side finds the numbers in the program. The receiver
// checks all values against the program before it uses them. Tests: tests/backend/rank_times_test.cpp.

#include "backend/process/rank_times.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "backend/executor/transport.hpp"
#include "backend/process/clock_alignment.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/socket_transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

bool has_beyond_last(const std::vector<Ns>& times) {
  return std::ranges::any_of(times, [](Ns time) { return time > kLastNs; });
}

/// Returns true if the rank measures times for such a position. Transfers and collectives use the times of
/// their messages instead.
bool has_own_times(FlatOp op) { return op == FlatOp::compute || op == FlatOp::reshard; }

/// Returns an error if two actions of the rank overlap in time. A rank runs one action after another, so such
/// times are wrong.
std::optional<std::string> overlap_in(const FlatProgram& flat, std::int32_t rank, const Done& done) {
  const std::int32_t begin = flat.rank_begin[index(rank)];
  std::int32_t before = kNone;
  for (std::int32_t p = begin; p < flat.rank_begin[index(rank) + 1]; ++p) {
    if (!has_own_times(flat.ops[index(p)])) continue;
    if (before != kNone && done.start[index(p - begin)] < done.end[index(before - begin)]) {
      return fmt::format("it sent times by which {} starts before {} ends", to_text(flat.actions[index(p)]),
                         to_text(flat.actions[index(before)]));
    }
    before = p;
  }
  return std::nullopt;
}

/// Returns true if each end is not before its start and both lists have the same length.
bool in_order(const std::vector<Ns>& starts, const std::vector<Ns>& ends) {
  return std::ranges::equal(starts, ends, std::ranges::less_equal{});
}

}  // namespace

Done done_of(const FlatProgram& flat, std::int32_t rank, std::int32_t run, const ProgramTimes& times,
             const std::vector<MessageTime>& messages) {
  const std::int32_t begin = flat.rank_begin[index(rank)];
  const std::int32_t end = flat.rank_begin[index(rank) + 1];
  Done done{.run = run,
            .start = {times.start.begin() + begin, times.start.begin() + end},
            .end = {times.end.begin() + begin, times.end.begin() + end},
            .message_start = {},
            .message_end = {},
            .account = {}};
  for (const MessageTime& time : messages) {
    done.message_start.push_back(time.start_ns);
    done.message_end.push_back(time.end_ns);
  }
  return done;
}

std::optional<std::string> fault_of(const FlatProgram& flat, std::int32_t rank, const Done& done) {
  const std::size_t positions = index(flat.rank_begin[index(rank) + 1] - flat.rank_begin[index(rank)]);
  const std::size_t messages = messages_of(flat, rank).size();
  if (done.start.size() != positions || done.end.size() != positions ||
      done.message_start.size() != messages || done.message_end.size() != messages)
    return "it sent times of another program";
  if (!in_order(done.start, done.end) || !in_order(done.message_start, done.message_end))
    return "it sent an end that comes before its start";
  if (has_beyond_last(done.end) || has_beyond_last(done.message_end))
    return "it sent a time of more than 146 years";
  return overlap_in(flat, rank, done);
}

void put_among(ProgramTimes& times, const FlatProgram& flat, std::int32_t rank, const Done& done) {
  const std::int32_t begin = flat.rank_begin[index(rank)];
  std::ranges::copy(done.start, times.start.begin() + begin);
  std::ranges::copy(done.end, times.end.begin() + begin);
  const std::vector<std::int32_t> messages = messages_of(flat, rank);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    times.message_start[index(messages[i])] = done.message_start[i];
    times.message_end[index(messages[i])] = done.message_end[i];
  }
}

}  // namespace penstock

// The times that a rank tells are its own: as many as its list has, and such as it can have measured.

#include "backend/process/rank_times.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/process/clock_alignment.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/socket_transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend/execution.hpp"

namespace penstock {
namespace {

FlatProgram flat_of_text(const std::string& text) {
  const Program program = read_program(text);
  return flatten(program, free_costs(program), {.channels = {}, .iterations = program.iterations});
}

FlatProgram gpipe_of_two() {
  const Program program = lowered(*generate("gpipe", {.stages = 2, .microbatches = 2}));
  return flatten(program, free_costs(program), {.channels = {}, .iterations = 1});
}

/// What a rank could have measured: everything takes 10, one after the other.
Done measured_by(const FlatProgram& flat, std::int32_t rank) {
  Done done{.start = {}, .end = {}, .message_start = {}, .message_end = {}, .account = {}};
  const std::int32_t begin = flat.rank_begin[index(rank)];
  for (std::int32_t p = begin; p < flat.rank_begin[index(rank) + 1]; ++p) {
    const bool is_own = flat.message[index(p)] == kNone;
    done.start.push_back(is_own ? 10 * (p - begin) : 0);
    done.end.push_back(is_own ? 10 * (p - begin) + 10 : 0);
  }
  const std::size_t messages = messages_of(flat, rank).size();
  done.message_start.assign(messages, 5);
  done.message_end.assign(messages, 95);  // messages overlap with everything
  return done;
}

/// The place in the rank's list.
std::size_t place_of_action(const FlatProgram& flat, std::int32_t rank, const std::string& action) {
  const std::int32_t begin = flat.rank_begin[index(rank)];
  std::int32_t p = begin;
  while (to_text(flat.actions[index(p)]) != action) ++p;
  return index(p - begin);
}

TEST(RankTimes, ThoseOfARankThatRanItsListAreTaken) {
  const FlatProgram flat = gpipe_of_two();
  for (const std::int32_t rank : {0, 1})
    EXPECT_EQ(fault_of(flat, rank, measured_by(flat, rank)), std::nullopt) << rank;
  Done at_once = measured_by(flat, 0);
  at_once.start.assign(at_once.start.size(), 7);
  at_once.end = at_once.start;
  EXPECT_EQ(fault_of(flat, 0, at_once), std::nullopt) << "what costs nothing";
}

TEST(RankTimes, AsManyAsItsListHas) {
  const FlatProgram flat = gpipe_of_two();
  const Done right = measured_by(flat, 1);
  for (std::vector<Ns> Done::* times : {&Done::start, &Done::end, &Done::message_start, &Done::message_end}) {
    Done fewer = right;
    (fewer.*times).pop_back();
    EXPECT_EQ(fault_of(flat, 1, fewer), "it sent times of another program");
    Done more = right;
    (more.*times).push_back(0);
    EXPECT_EQ(fault_of(flat, 1, more), "it sent times of another program");
  }
}

TEST(RankTimes, NothingEndsBeforeItStarts) {
  const FlatProgram flat = gpipe_of_two();
  Done action = measured_by(flat, 1);
  action.start.back() = action.end.back() + 1;
  EXPECT_EQ(fault_of(flat, 1, action), "it sent an end that comes before its start");
  Done message = measured_by(flat, 1);
  message.message_start.back() = message.message_end.back() + 1;
  EXPECT_EQ(fault_of(flat, 1, message), "it sent an end that comes before its start");
}

TEST(RankTimes, NothingEndsBeyondWhatAClockShows) {
  const FlatProgram flat = gpipe_of_two();
  Done action = measured_by(flat, 1);
  action.end.back() = kLastNs;
  EXPECT_EQ(fault_of(flat, 1, action), std::nullopt);
  action.end.back() = kLastNs + 1;
  EXPECT_EQ(fault_of(flat, 1, action), "it sent a time of more than 146 years");
  Done message = measured_by(flat, 1);
  message.message_end.front() = kLastNs + 1;
  EXPECT_EQ(fault_of(flat, 1, message), "it sent a time of more than 146 years");
}

TEST(RankTimes, NoActionStartsBeforeTheOneBeforeItEnds) {
  const FlatProgram flat = gpipe_of_two();
  Done done = measured_by(flat, 0);
  done.end[place_of_action(flat, 0, "0F0")] += 1'000;
  EXPECT_EQ(fault_of(flat, 0, done), "it sent times by which 0F1 starts before 0F0 ends");
  done = measured_by(flat, 0);
  done.start[place_of_action(flat, 0, "0STEP")] = done.end[place_of_action(flat, 0, "0B1")] - 1;
  EXPECT_EQ(fault_of(flat, 0, done), "it sent times by which 0STEP starts before 0B1 ends");
}

TEST(RankTimes, AnOverlappedPairIsOneAction) {
  const FlatProgram flat = flat_of_text(
      "penstock program 1\nschedule pair\nmicrobatches 2\nstage 0: rank 0\n"
      "rank 0: 0F0 (0F1;0B0)OVERLAP_F_B 0B1 0STEP\n");
  Done done = measured_by(flat, 0);
  const std::size_t first = place_of_action(flat, 0, "0F1");
  done.start[first + 1] = done.start[first];
  done.end[first] = done.end[first + 1];
  EXPECT_EQ(fault_of(flat, 0, done), std::nullopt);
}

}  // namespace
}  // namespace penstock

// Tests that the cause of a hang is found in dumps of PyTorch's flight recorder. A small executor runs the
// lists of a schedule with a planted fault, until no rank can continue. Then it writes the dump of each rank.
// Every planted fault must be named.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/autopsy/autopsy.hpp"
#include "sim/autopsy/trace_formats.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;

struct Plant {
  std::string stuck{};                 ///< the action that never ends
  std::string dropped{};               ///< the SEND that is not posted
  std::optional<std::int32_t> gone{};  ///< the rank that ends after `posts` posts and leaves no dump
  std::size_t posts = 0;
  std::size_t iteration = 0;  ///< the iteration in which the fault happens
  std::size_t lost = 0;       ///< the number of first entries that the ring buffer of each dump has lost
};

/// An executor that posts the messages of a program in three iterations.
class Poster {
 public:
  Poster(const Program& program, const Plant& plant)
      : program_(program), plant_(plant), cursor_(program.ranks.size(), 0) {
    posts_.resize(program.ranks.size());
  }

  /// Runs until no rank can continue, and returns the dumps.
  std::vector<RankDump> dumps() {
    bool moves = true;
    while (moves) {
      moves = false;
      for (std::size_t rank = 0; rank < cursor_.size(); ++rank) {
        while (step(rank)) moves = true;
      }
    }
    std::vector<RankDump> dumps;
    for (std::size_t rank = 0; rank < cursor_.size(); ++rank) {
      if (plant_.gone == static_cast<std::int32_t>(rank)) continue;
      auto dump = read_flight_recorder(text_of_dump(rank), fmt::format("dump_rank_{}.json", rank));
      EXPECT_TRUE(dump) << dump.error();
      dumps.push_back(*std::move(dump));
    }
    return dumps;
  }

 private:
  struct Post {
    bool is_send;
    std::int32_t peer;
  };

  bool step(std::size_t rank) {
    const std::vector<Action>& list = program_.ranks[rank];
    if (cursor_[rank] >= 3 * list.size()) return false;
    if (plant_.gone == static_cast<std::int32_t>(rank) && posts_[rank].size() >= plant_.posts) return false;
    const std::size_t iteration = cursor_[rank] / list.size();
    const Action& action = list[cursor_[rank] % list.size()];
    const bool here = iteration == plant_.iteration;
    if (is_transfer(action.kind)) {
      if (!here || to_text(action) != plant_.dropped) {
        const std::int32_t peer = program_.placement.rank_of(action.peer, action.microbatch);
        posts_[rank].push_back({is_send(action.kind), peer});
        if (is_send(action.kind)) ++sent_[{static_cast<std::int32_t>(rank), peer}];
        if (is_recv(action.kind))
          number_[rank][action] = received_[{peer, static_cast<std::int32_t>(rank)}]++;
      }
    } else if ((here && to_text(action) == plant_.stuck) || !has_inputs(rank, action)) {
      return false;
    }
    ++cursor_[rank];
    return true;
  }

  bool has_inputs(std::size_t rank, const Action& action) {
    for (const Action& recv : program_.ranks[rank]) {
      const bool is_input = (recv.kind == ActionKind::recv_forward && action.kind == ActionKind::forward) ||
                            (recv.kind == ActionKind::recv_backward && makes_input_gradient(action.kind));
      if (!is_input || recv.stage != action.stage || recv.microbatch != action.microbatch) continue;
      const std::int32_t from = program_.placement.rank_of(recv.peer, recv.microbatch);
      if (sent_[{from, static_cast<std::int32_t>(rank)}] <= number_[rank][recv]) return false;
    }
    return true;
  }

  std::string text_of_dump(std::size_t rank) {
    nlohmann::json entries = nlohmann::json::array();
    const auto add = [&](bool sends, std::int32_t peer, bool completed, int size) {
      entries.push_back({{"record_id", entries.size()},
                         {"process_group", {"1", "pp"}},
                         {"profiling_name", fmt::format("nccl:{} {}{}{}", sends ? "send" : "recv", rank,
                                                        sends ? "->" : "<-", peer)},
                         {"input_sizes", {{4, size}}},
                         {"is_p2p", true},
                         {"state", completed ? "completed" : "scheduled"}});
    };
    // Before the first iteration, each rank sends and receives the shapes of tensors.
    if (rank > 0) add(false, static_cast<std::int32_t>(rank) - 1, true, 1);
    if (rank + 1 < cursor_.size()) add(true, static_cast<std::int32_t>(rank) + 1, true, 1);
    std::map<std::pair<bool, std::int32_t>, std::size_t> numbers;
    for (const Post& post : posts_[rank]) {
      const std::size_t number = numbers[{post.is_send, post.peer}]++;
      const auto self = static_cast<std::int32_t>(rank);
      const auto& other = post.is_send ? received_[{self, post.peer}] : sent_[{post.peer, self}];
      add(post.is_send, post.peer, other > number, 64);
    }
    for (std::size_t i = 0; i < plant_.lost && !entries.empty(); ++i) entries.erase(0);
    const nlohmann::json document = {{"version", "2.4"},
                                     {"pg_config", {{"1", {{"name", "1"}, {"ranks", "[0, 1, 2, 3]"}}}}},
                                     {"entries", entries}};
    return document.dump();
  }

  const Program& program_;
  const Plant& plant_;
  std::vector<std::size_t> cursor_;
  std::vector<std::vector<Post>> posts_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> sent_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> received_;
  std::map<std::size_t, std::map<Action, std::size_t>> number_;
};

Program lists_of(const std::string& schedule, const Shape& shape) {
  return lower(generate(schedule, shape).value()).value();
}

std::vector<Program> programs() {
  return {lists_of("1f1b", {.stages = 4, .microbatches = 6}),
          lists_of("gpipe", {.stages = 4, .microbatches = 4}),
          lists_of("interleaved", {.stages = 4, .microbatches = 4, .virtual_stages = 2})};
}

std::optional<HangVerdict> verdict_of(const Program& program, const Plant& plant) {
  auto verdict = find_recorded_hang(Poster(program, plant).dumps(), program);
  EXPECT_TRUE(verdict) << verdict.error();
  return verdict.value_or(std::nullopt);
}

/// Returns the last compute action after `action` that no message separates from it.
Action last_before_message(const std::vector<Action>& list, const Action& action) {
  auto last = std::ranges::find(list, action);
  while (last + 1 != list.end() && has_weight_version((last + 1)->kind)) ++last;
  return *last;
}

TEST(RecordedHang, NamesTheActionInWhichARankIsStuck) {
  for (const Program& program : programs()) {
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      for (const Action& action : program.ranks[rank]) {
        if (!has_weight_version(action.kind)) continue;
        // If no action follows a backward pass of the first stage, no rank waits for it.
        if (action.stage == 0 && action.kind == ActionKind::backward) continue;
        // The posts do not show which of several actions between two messages is running, so the last one is
        // named.
        const Action last = last_before_message(program.ranks[rank], action);
        const std::string stuck = to_text(action);
        const auto verdict = verdict_of(program, {.stuck = stuck, .iteration = 1});
        ASSERT_TRUE(verdict) << program.schedule << ' ' << stuck;
        EXPECT_EQ(verdict->kind, HangKind::stuck) << program.schedule << ' ' << stuck << '\n'
                                                  << to_text(verdict);
        EXPECT_EQ(verdict->rank, static_cast<std::int64_t>(rank)) << stuck;
        EXPECT_EQ(verdict->action, to_text(last)) << program.schedule << '\n' << to_text(verdict);
        if (last != action) {
          EXPECT_THAT(verdict->why, HasSubstr("it may also be in " + stuck));
        }
        EXPECT_EQ(verdict->iteration, 1) << stuck;
      }
    }
  }
}

/// Returns the last of several consecutive messages that look like `action`: SENDs from the same rank to the
/// same other rank.
std::string last_alike(const Program& program, std::size_t rank, const Action& action) {
  std::vector<Action> messages;
  for (const Action& one : program.ranks[rank]) {
    if (is_transfer(one.kind)) messages.push_back(one);
  }
  const auto peer = [&](const Action& one) { return program.placement.rank_of(one.peer, one.microbatch); };
  auto last = std::ranges::find(messages, action);
  while (last + 1 != messages.end() && is_send((last + 1)->kind) && peer(*(last + 1)) == peer(action)) ++last;
  return to_text(*last);
}

TEST(RecordedHang, NamesASendThatWasDropped) {
  for (const Program& program : programs()) {
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      for (const Action& action : program.ranks[rank]) {
        if (!is_send(action.kind)) continue;
        const std::string dropped = to_text(action);
        const auto verdict = verdict_of(program, {.dropped = dropped, .iteration = 1});
        ASSERT_TRUE(verdict) << program.schedule << ' ' << dropped;
        ASSERT_EQ(verdict->kind, HangKind::order) << program.schedule << ' ' << dropped << '\n'
                                                  << to_text(verdict);
        EXPECT_EQ(verdict->rank, static_cast<std::int64_t>(rank)) << dropped;
        EXPECT_EQ(verdict->action, last_alike(program, rank, action)) << program.schedule << '\n'
                                                                      << to_text(verdict);
        EXPECT_EQ(verdict->iteration, 1) << dropped;
      }
    }
  }
}

TEST(RecordedHang, NamesARankThatIsGone) {
  for (const Program& program : programs()) {
    for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
      for (const std::size_t posts : {0, 1, 7, 13}) {
        const auto verdict = verdict_of(program, {.gone = rank, .posts = posts});
        ASSERT_TRUE(verdict) << program.schedule << ' ' << rank << ' ' << posts;
        EXPECT_EQ(verdict->kind, HangKind::gone) << to_text(verdict);
        EXPECT_EQ(verdict->rank, rank);
      }
    }
  }
}

TEST(RecordedHang, IsFoundThoughTheRingBufferHasLostItsBeginning) {
  const Program program = lists_of("1f1b", {.stages = 4, .microbatches = 6});
  const auto verdict = verdict_of(program, {.stuck = "2B3", .iteration = 1, .lost = 9});
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, HangKind::stuck) << to_text(verdict);
  EXPECT_EQ(verdict->action, "2B3") << to_text(verdict);
}

/// Returns the dumps with the numbers of copy `copy`. Its ranks have the numbers from 4 * copy on.
std::vector<RankDump> in_copy(std::vector<RankDump> dumps, std::int64_t copy) {
  for (RankDump& dump : dumps) {
    dump.rank += 4 * copy;
    for (std::int64_t& rank : dump.group) rank += 4 * copy;
    for (PostedMessage& message : dump.messages) message.peer += 4 * copy;
  }
  return dumps;
}

// The first copy has ended its iteration and waits for the second copy.
TEST(RecordedHang, NamesTheCopyOfThePipelineThatHangs) {
  const Program program = lists_of("1f1b", {.stages = 4, .microbatches = 6});
  for (const bool is_gone : {false, true}) {
    Plant plant{.stuck = "2B3", .iteration = 1};
    if (is_gone) plant = {.gone = 2, .posts = 7};
    const Plant none{.iteration = 9};
    std::vector<RankDump> dumps = in_copy(Poster(program, none).dumps(), 0);
    const std::vector<RankDump> hanging = in_copy(Poster(program, plant).dumps(), 1);
    dumps.insert(dumps.end(), hanging.begin(), hanging.end());
    const auto verdict = find_recorded_hang(dumps, program);
    ASSERT_TRUE(verdict) << verdict.error();
    ASSERT_TRUE(*verdict);
    EXPECT_EQ((*verdict)->kind, is_gone ? HangKind::gone : HangKind::stuck);
    EXPECT_EQ((*verdict)->rank, 6);
    if (!is_gone) {
      EXPECT_EQ((*verdict)->action, "2B3");
    }
    for (RankDump& dump : dumps) dump.group.clear();
    EXPECT_THAT(find_recorded_hang(dumps, program).error(),
                HasSubstr("give the dumps of one copy of the pipeline"));
  }
}

TEST(RecordedHang, IsNoneIfAllListsWerePosted) {
  for (const Program& program : programs())
    EXPECT_FALSE(verdict_of(program, {.iteration = 9})) << program.schedule;
}

//   rank 0   0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 | 0B1         0B1 is behind the last message
//   rank 1   1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 | 1F1 1B1
TEST(RecordedHang, IsFoundWhereARankWaitsBehindItsLastMessage) {
  const Program program = lists_of("1f1b", {.stages = 2, .microbatches = 2});
  const auto verdict = verdict_of(program, {.stuck = "1B1"});
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, HangKind::stuck);
  EXPECT_EQ(verdict->action, "1B1");
  EXPECT_THAT(verdict->waits,
              ::testing::Contains("rank 0 waits at 0B1 of iteration 0 for 1SEND_B1 of rank 1"));
}

TEST(RecordedHang, NamesTheRankThatHasNotJoinedACollective) {
  const auto dump = [](std::int64_t rank, int sequence) {
    return read_flight_recorder(
               fmt::format(
                   R"({{"entries": [{{"record_id": 0, "process_group": ["0", "default"], "is_p2p": false,
                               "profiling_name": "gloo:all_reduce", "collective_seq_id": {}, "state": "started"}}]}})",
                   sequence),
               fmt::format("rank_{}", rank))
        .value();
  };
  const Program program = lists_of("1f1b", {.stages = 2, .microbatches = 2});
  const auto verdict = find_recorded_hang({dump(0, 12), dump(1, 11)}, program);
  ASSERT_TRUE(verdict && *verdict);
  EXPECT_EQ((*verdict)->kind, HangKind::collective);
  EXPECT_EQ((*verdict)->rank, 1);
  EXPECT_THAT((*verdict)->why, HasSubstr("has not joined collective 12 of group 0"));
}

TEST(FlightRecorder, TakesTheStateOfAGroupForItsMembers) {
  const auto dump = read_flight_recorder(
      R"({"entries": [
        {"record_id": 0, "profiling_name": "nccl:send 1->2", "state": "scheduled", "is_p2p": true, "input_sizes": [[8]]},
        {"record_id": 1, "profiling_name": "nccl:recv 1<-2", "state": "scheduled", "is_p2p": true, "input_sizes": [[8]]},
        {"record_id": 2, "profiling_name": "nccl:coalesced", "state": "completed", "is_p2p": true},
        {"record_id": 3, "profiling_name": "nccl:send 1->0", "state": "started", "is_p2p": true, "input_sizes": [[8]]}]})",
      "nccl_trace_rank_1");
  ASSERT_TRUE(dump) << dump.error();
  ASSERT_EQ(dump->messages.size(), 3U);
  EXPECT_TRUE(dump->messages[1].completed);
  EXPECT_FALSE(dump->messages[2].completed);
  EXPECT_EQ(dump->messages[2].peer, 0);
}

// The bytes that pickle.dumps(..., protocol=2) returns for a dump with one SEND.
constexpr const char kPickle[] =
    "\200\002}q\000(X\007\000\000\000versionq\001X\003\000\000\0002.4q\002X\011\000\000\000"
    "pg_configq\003}q\004X\001\000\000\0001q\005}q\006(X\004\000\000\000nameq\007h\005X\005"
    "\000\000\000ranksq\010X\006\000\000\000[0, 1]q\011usX\007\000\000\000entriesq\012]q\013"
    "}q\014(X\011\000\000\000record_idq\015K\000X\015\000\000\000process_groupq\016]q\017("
    "h\005X\002\000\000\000ppq\020eX\016\000\000\000profiling_nameq\021X\016\000\000\000nc"
    "cl:send 1->0q\022X\013\000\000\000input_sizesq\023]q\024]q\025(K\004K@eaX\006\000\000"
    "\000is_p2pq\026\210X\007\000\000\000retiredq\027\211X\005\000\000\000stateq\030X\011\000"
    "\000\000scheduledq\031X\017\000\000\000time_created_nsq\032\212\010\000\000*6\376\234"
    "\227\027X\012\000\000\000timeout_msq\033J\300'\011\000X\013\000\000\000duration_msq\034"
    "G\077\340\000\000\000\000\000\000X\006\000\000\000framesq\035Nuau.";
const std::string kDumpedPickle(kPickle, sizeof kPickle - 1);

TEST(FlightRecorder, ReadsAPickleOfPlainValues) {
  EXPECT_TRUE(is_flight_recorder(kDumpedPickle));
  const auto dump = read_flight_recorder(kDumpedPickle, "nccl_trace_rank_1");
  ASSERT_TRUE(dump) << dump.error();
  EXPECT_EQ(dump->rank, 1);
  EXPECT_EQ(dump->group, (std::vector<std::int64_t>{0, 1}));
  ASSERT_EQ(dump->messages.size(), 1U);
  EXPECT_TRUE(dump->messages[0].is_send);
  EXPECT_EQ(dump->messages[0].peer, 0);
  EXPECT_EQ(dump->messages[0].sizes, "[[4,64]]");
  EXPECT_FALSE(dump->messages[0].completed);
}

TEST(FlightRecorder, RefusesAPickleThatIsCutOffOrChanged) {
  for (std::size_t length = 2; length < kDumpedPickle.size(); ++length)
    EXPECT_FALSE(read_flight_recorder(kDumpedPickle.substr(0, length), "nccl_trace_rank_1")) << length;
  // If a byte is changed, the pickle is read or refused, but never executed.
  for (std::size_t place = 2; place < kDumpedPickle.size(); ++place) {
    for (const char other : {'\0', 'c', 'R', '(', 'e', 'u', 'h', '\xff'}) {
      std::string changed = kDumpedPickle;
      changed[place] = other;
      (void)read_flight_recorder(changed, "nccl_trace_rank_1");
    }
  }
}

TEST(FlightRecorder, RefusesAPickleThatNamesCode) {
  const std::string pickle =
      "\x80\x02"
      "cos\nsystem\nX\x02\0\0\0id\x85R.";
  EXPECT_THAT(
      read_flight_recorder(pickle, "nccl_trace_rank_0").error(),
      HasSubstr("has opcode 0x63, and only dicts, lists, tuples, texts, numbers, bools and None are read"));
  EXPECT_THAT(read_flight_recorder("\x80\x04\x95", "nccl_trace_rank_0").error(),
              HasSubstr("is of a protocol above 2"));
}

// Each list holds two references to the previous list, so its text would double with each level.
TEST(FlightRecorder, RefusesAPickleThatGrowsWhenItIsWritten) {
  std::string pickle = "\x80\x02]q";
  pickle += '\0';
  for (char level = 1; level < 60; ++level) {
    pickle += "](h";
    pickle += static_cast<char>(level - 1);
    pickle += 'h';
    pickle += static_cast<char>(level - 1);
    pickle += "eq";
    pickle += level;
  }
  // Only the last list stays on the stack as an item of a tuple of all.
  pickle = pickle.substr(0, 2) + '(' + pickle.substr(2) + "t.";
  EXPECT_THAT(read_flight_recorder(pickle, "nccl_trace_rank_0").error(), HasSubstr("the pickle "));
}

}  // namespace
}  // namespace penstock

#include "schedules/digest.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "schedules/action.hpp"
#include "schedules/channel.hpp"
#include "schedules/program.hpp"
#include "schedules/program_text.hpp"

namespace penstock {
namespace {

Program two_ranks() {
  return parse_program(
             "penstock program 1\nschedule custom\nmicrobatches 1\nstage 0: rank 0\nstage 1: rank 1\n"
             "rank 0: 0F0 0SEND_F0 0RECV_B0 0B0 0STEP\nrank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1STEP\n",
             "digest_test")
      .value();
}

// The same bytes through coreutils' sha256sum.
TEST(Digest, IsTheSha256OfTheText) {
  EXPECT_EQ(digest(two_ranks()), "2ca285f9ad9e5fbb87f49d0f15eb702b0e4dccb7edb30f2a97983bca4d766aa9");
}

TEST(Digest, EveryFieldCounts) {
  const std::vector<std::function<void(Program&)>> changes = {
      [](Program& program) { program.schedule = "1f1b"; },
      [](Program& program) { program.microbatches = 2; },
      [](Program& program) { program.slices = 2; },
      [](Program& program) { program.iterations = 2; },
      [](Program& program) { program.barrier = true; },
      [](Program& program) { program.update = UpdateRule::double_buffered; },
      [](Program& program) { program.recompute = RecomputeTiming::late; },
      [](Program& program) { program.sharding = 1; },
      [](Program& program) { program.channel = ChannelModel::rank; },
      [](Program& program) { program.placement.stages[1].ranks[0] = 0; },
      [](Program& program) { program.placement.stages[1].route = {0, 0}; },
      [](Program& program) { program.edges = {{0, 1}}; },
      [](Program& program) { program.ranks.emplace_back(); },
      [](Program& program) { program.ranks[0][0].kind = ActionKind::recompute; },
      [](Program& program) { program.ranks[0][0].stage = 1; },
      [](Program& program) { program.ranks[0][0].microbatch = 1; },
      [](Program& program) { program.ranks[0][0].weight_version = 1; },
      [](Program& program) { program.ranks[0][0].overlaps_next = true; },
      [](Program& program) { program.ranks[0][1].peer = 0; },
  };
  std::set<std::string> digests{digest(two_ranks())};
  for (const auto& change : changes) {
    Program program = two_ranks();
    change(program);
    digests.insert(digest(program));
  }
  EXPECT_EQ(digests.size(), changes.size() + 1);
}

}  // namespace
}  // namespace penstock

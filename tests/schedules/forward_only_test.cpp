// Tests programs in which stages run only forwards, and edges that carry only one flow: their text forms, the
// forward half of the rules, the checks, and lowering.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"

namespace penstock {
namespace {

/// Returns the lines `rank R: ...` of a program's text.
std::string lines_of_ranks(const Program& program) {
  const std::string text = to_text(program);
  return text.substr(text.find("\nrank 0:") + 1);
}

std::string refused_with(std::string_view name, const Shape& shape) {
  const auto program = generate(name, shape);
  return program ? "" : program.error();
}

Program read_program(const std::string& lines) {
  auto program = parse_program("penstock program 1\nschedule custom\n" + lines, "test.psched");
  EXPECT_TRUE(program) << program.error();
  return program ? *program : Program{};
}

TEST(ForwardOnly, IsTheForwardHalfOfARule) {
  const Shape shape{.stages = 2, .microbatches = 3, .passes = Passes::forward};
  for (const char* name : {"naive", "gpipe", "1f1b"}) {
    EXPECT_EQ(lines_of_ranks(*generate(name, shape)),
              "rank 0: 0F0 0F1 0F2\n"
              "rank 1: 1F0 1F1 1F2\n")
        << name;
  }
  Shape chunks = shape;
  chunks.microbatches = 4;
  chunks.virtual_stages = 2;
  EXPECT_EQ(lines_of_ranks(*generate("interleaved", chunks)),
            "rank 0: 0F0 0F1 2F0 2F1 0F2 0F3 2F2 2F3\n"
            "rank 1: 1F0 1F1 3F0 3F1 1F2 1F3 3F2 3F3\n");
  EXPECT_EQ(lines_of_ranks(*generate("looped-bfs", chunks)),
            "rank 0: 0F0 0F1 0F2 0F3 2F0 2F1 2F2 2F3\n"
            "rank 1: 1F0 1F1 1F2 1F3 3F0 3F1 3F2 3F3\n");
}

// Whatever M is, the forward half needs as many loops as the rule.
TEST(ForwardOnly, HasTheSameLoopsAsLists) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (!schedule.has_forward_half) continue;
    for (std::int32_t stages = 1; stages <= 4; ++stages) {
      for (std::int32_t microbatches = 1; microbatches <= 12; ++microbatches) {
        for (const Passes passes : {Passes::forward, Passes::forward_kv}) {
          const Shape shape{.stages = stages,
                            .microbatches = microbatches,
                            .virtual_stages = takes_chunks(schedule) ? 2 : 1,
                            .passes = passes};
          const auto program = generate(schedule.name, shape);
          if (!program) continue;
          SCOPED_TRACE(testing::Message() << schedule.name << " " << stages << " " << microbatches);
          EXPECT_EQ(unrolled(*generate_loops(schedule.name, shape)), *program);
          const auto valid = validate(*program);
          EXPECT_TRUE(valid) << valid.error();
          const Program lowered = lower(*program).value();
          const auto sends = validate(lowered);
          EXPECT_TRUE(sends) << sends.error();
          EXPECT_FALSE(find_hang(lowered, {.model = ChannelModel::rank}, unit_costs(lowered)));
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 400);
}

TEST(ForwardOnly, IsRefusedWhereARuleOrdersBackwards) {
  const Shape shape{.stages = 2, .microbatches = 4, .passes = Passes::forward};
  EXPECT_EQ(refused_with("zb-h1", shape),
            "forward_only: zb-h1 orders backward passes, and says nothing about a program without them; take "
            "one of naive, gpipe, 1f1b, interleaved, seq-1f1b, looped-bfs");
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (schedule.has_forward_half) continue;
    EXPECT_TRUE(refused_with(schedule.name, shape).starts_with("forward_only: ")) << schedule.name;
  }
  Shape recomputing = shape;
  recomputing.checkpoint = Checkpoint::always;
  EXPECT_EQ(refused_with("1f1b", recomputing),
            "forward_only: there is no backward pass to recompute for; leave checkpoint and recompute out");
  Shape sharded = shape;
  sharded.data_parallel = 2;
  sharded.sharding = 2;
  EXPECT_EQ(refused_with("1f1b", sharded),
            "forward_only: sharding 2 shares gradients out, which are not there; take 3, which shares the "
            "weights, or leave it out");
  Shape updating = shape;
  updating.update = UpdateRule::microbatch;
  EXPECT_EQ(refused_with("naive", updating),
            "forward_only: there is no update of weights; leave `update` out");
  Shape cut = shape;
  cut.buckets = {2};
  EXPECT_EQ(refused_with("1f1b", cut),
            "forward_only: there are no gradients to reduce in buckets; leave buckets out");
}

// Copies of a pipeline have nothing to reduce. Under sharding 3 they gather weights around each F.
TEST(ForwardOnly, CopiesOfAPipelineOnlyGather) {
  Shape shape{.stages = 1, .microbatches = 4, .data_parallel = 2, .passes = Passes::forward};
  EXPECT_EQ(lines_of_ranks(*generate("1f1b", shape)), "rank 0: 0F0 0F2\nrank 1: 0F1 0F3\n");
  shape.sharding = 3;
  const Program sharded = *generate("1f1b", shape);
  EXPECT_EQ(lines_of_ranks(sharded),
            "rank 0: 0UNSHARD 0F0 0RESHARD 0UNSHARD 0F2 0RESHARD\n"
            "rank 1: 0UNSHARD 0F1 0RESHARD 0UNSHARD 0F3 0RESHARD\n");
  const auto valid = validate(sharded);
  EXPECT_TRUE(valid) << valid.error();
}

TEST(ForwardOnly, IsAWordInTheHeaderOfAProgram) {
  const std::string lists = "stage 0: rank 0\nstage 1: rank 1\nrank 0: 0F0 0F1\nrank 1: 1F0 1F1\n";
  for (const std::string word : {"forward_only", "forward_only kv"}) {
    const Program program = read_program("microbatches 2\n" + word + "\n" + lists);
    EXPECT_TRUE(is_forward_only(program));
    EXPECT_EQ(to_text(program),
              "penstock program 1\nschedule custom\nmicrobatches 2\n" + word + "\n" + lists);
    const auto valid = validate(program);
    EXPECT_TRUE(valid) << valid.error();
  }
  // A word of each stage means the same, and is written in the header.
  const Program by_stage = read_program(
      "microbatches 2\nstage 0: forward rank 0\nstage 1: forward rank 1\n"
      "rank 0: 0F0 0F1\nrank 1: 1F0 1F1\n");
  EXPECT_EQ(by_stage, read_program("microbatches 2\nforward_only\n" + lists));
}

// A frozen encoder: stage 0 runs only forwards, stage 1 trains.
TEST(ForwardOnly, HoldsForSingleStages) {
  const std::string text =
      "penstock program 1\nschedule custom\nmicrobatches 2\n"
      "stage 0: forward rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0F1\nrank 1: 1F0 1B0 1F1 1B1 1STEP\n";
  const Program program = *parse_program(text, "encoder.psched");
  EXPECT_EQ(to_text(program), text);
  const auto valid = validate(program);
  ASSERT_TRUE(valid) << valid.error();
  EXPECT_EQ(lines_of_ranks(*lower(program)),
            "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1\n"
            "rank 1: 1RECV_F0 1F0 1RECV_F1 1B0 1F1 1B1 1STEP\n");
}

TEST(ForwardOnly, ChangesTheDigest) {
  const Shape trained{.stages = 2, .microbatches = 2};
  Program program = *lower(*generate("1f1b", trained));
  const std::string before = digest(program);
  for (std::vector<Action>& list : program.ranks) list.clear();
  const std::string empty = digest(program);
  set_passes(program, Passes::forward);
  const std::string forward = digest(program);
  set_passes(program, Passes::forward_kv);
  EXPECT_NE(empty, forward);
  EXPECT_NE(digest(program), forward);
  EXPECT_NE(before, empty);
}

// A CSV cannot say that its stages run only forwards, so the reader is told.
TEST(ForwardOnly, IsToldToTheReaderOfACsv) {
  const std::string csv = "0F0,0F1\n1F0,1F1\n";
  const Program program =
      import_pytorch_csv(csv, "test.csv", CsvDialect::torch_2_6, Passes::forward)->program;
  EXPECT_EQ(lines_of_ranks(program), "rank 0: 0F0 0F1\nrank 1: 1F0 1F1\n");
  const auto valid = validate(program);
  EXPECT_TRUE(valid) << valid.error();
  EXPECT_EQ(*to_pytorch_csv(program), csv);
  const Program encoder = read_program(
      "microbatches 1\nstage 0: forward rank 0\nstage 1: rank 1\nrank 0: 0F0\nrank 1: 1F0 1B0 1STEP\n");
  EXPECT_EQ(to_pytorch_csv(encoder).error(),
            "PyTorch's CSV cannot express this program: some stages run only forwards, and all or none must");
}

// Stage 0 feeds stages 1 and 2. The gradient of stage 2 goes to stage 1, and none goes from 1 to 0.
TEST(OneWayEdges, CarryOneFlow) {
  const std::string text =
      "penstock program 1\nschedule custom\nmicrobatches 1\n"
      "edges 0>1! 0>2 1<2!\n"
      "stage 0: rank 0\nstage 1: rank 1\nstage 2: rank 2\n"
      "rank 0: 0F0 0B0 0STEP\nrank 1: 1F0 1B0 1STEP\nrank 2: 2F0 2B0 2STEP\n";
  const auto program = parse_program(text, "test.psched");
  ASSERT_TRUE(program) << program.error();
  EXPECT_EQ(to_text(*program), text);
  const auto valid = validate(*program);
  ASSERT_TRUE(valid) << valid.error();
  const Program lowered = *lower(*program);
  EXPECT_EQ(lines_of_ranks(lowered),
            "rank 0: 0F0 0SEND_F0 0SEND_F0>2 0RECV_B0<2 0B0 0STEP\n"
            "rank 1: 1RECV_F0 1F0 1RECV_B0 1B0 1STEP\n"
            "rank 2: 2RECV_F0<0 2F0 2B0 2SEND_B0>0 2SEND_B0 2STEP\n");
  const auto sends = validate(lowered);
  EXPECT_TRUE(sends) << sends.error();
  EXPECT_EQ(*parse_program(to_text(lowered), "again.psched"), lowered);
  Program both = lowered;
  for (StageEdge& edge : both.edges) edge.flows = EdgeFlows::both;
  EXPECT_NE(digest(both), digest(lowered));
  EXPECT_FALSE(to_pytorch_csv(*program));
}

}  // namespace
}  // namespace penstock

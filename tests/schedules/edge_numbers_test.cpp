// Edges by number, and what a message weighs.

#include "schedules/ir/edge_numbers.hpp"

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {
namespace {

constexpr Action kSend{.kind = ActionKind::send_forward, .stage = 0, .microbatch = 0, .peer = 1};
constexpr Action kGradient{.kind = ActionKind::recv_backward, .stage = 0, .microbatch = 0, .peer = 1};

Program chain() { return *generate("gpipe", {.stages = 3, .microbatches = 1}); }

/// 0 feeds 1 and 2, both feed 3.
Program diamond() {
  Program program = *generate("gpipe", {.stages = 4, .microbatches = 1});
  program.edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  return program;
}

TEST(EdgeNumbers, AreThePlacesAmongTheStageEdges) {
  for (const Program& program : {chain(), diamond()}) {
    const EdgeNumbers edges(program);
    ASSERT_EQ(edges.edges(), stage_edges(program));
    for (std::size_t number = 0; number < edges.size(); ++number)
      EXPECT_EQ(edges.of(edges.edges()[number]), number);
  }
}

TEST(EdgeNumbers, OfAnEdgeThatIsNotThereIsAnErrorOfTheProgrammer) {
  const EdgeNumbers edges(diamond());
  EXPECT_THAT([&] { edges.of(StageEdge{.from = 0, .to = 3}); },
              testing::ThrowsMessage<std::logic_error>("the program has no stage edge 0>3"));
  EXPECT_THROW(edges.of(StageEdge{.from = 3, .to = 0}), std::logic_error);
}

TEST(TransferBytes, AreThoseOfTheEdgeAndItsDirection) {
  const Program program = diamond();
  CostTable costs = unit_costs(program);
  costs.edges[0] = {.activation = 5, .gradient = 7};
  const EdgeNumbers edges(program);
  EXPECT_EQ(transfer_bytes(costs, edges, kSend), 5);
  EXPECT_EQ(transfer_bytes(costs, edges, kGradient), 7);
}

TEST(TransferBytes, OfAnEdgeWithoutCostsAreAnErrorOfTheProgrammer) {
  const EdgeNumbers edges(chain());
  EXPECT_THAT([&] { transfer_bytes({.stages = {3, StageCost{}}, .edges = {}}, edges, kSend); },
              testing::ThrowsMessage<std::logic_error>(
                  "a cost table of 0 edges was given for a program of 2: every edge needs its bytes"));
}

TEST(UniformCosts, OfAChainHaveItsEdges) {
  const CostTable costs = uniform_costs(chain(), {.forward_ns = 3}, {.activation = 1, .gradient = 2});
  EXPECT_EQ(costs.stages.size(), 3U);
  ASSERT_EQ(costs.edges.size(), 2U) << "though the program leaves its edges to be the chain";
  EXPECT_EQ(costs.edges.back(), (EdgeCost{.activation = 1, .gradient = 2}));
}

}  // namespace
}  // namespace penstock

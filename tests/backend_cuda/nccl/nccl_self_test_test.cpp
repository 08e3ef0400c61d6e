// What `penstock selftest` sends over NCCL; needs no GPU.

#include "backend/nccl/nccl_self_test.hpp"

#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/edge_numbers.hpp"

namespace penstock {
namespace {

TEST(NcclSelfTest, EveryMessageHasAMebibyte) {
  const auto experiment = nccl_self_test_experiment(4);
  ASSERT_TRUE(experiment) << experiment.error();
  const EdgeNumbers edges(experiment->program);
  std::size_t sends = 0;
  for (const std::vector<Action>& list : experiment->program.ranks) {
    for (const Action& action : list) {
      if (!is_send(action.kind)) continue;
      ++sends;
      EXPECT_EQ(transfer_bytes(experiment->costs, edges, action), 1 << 20) << to_text(action);
    }
  }
  EXPECT_EQ(sends, 8U * 2U * 3U) << "of 8 microbatches F and B over 3 edges";
}

}  // namespace
}  // namespace penstock

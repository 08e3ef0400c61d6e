// When `simulate` says how sure a makespan is.

#include "sim/runs/sharing_band.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/shared_links.hpp"
#include "sim/engines/engines.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

/// 24 pipelines over four servers. With 8 MiB a message the links are full most of the time, with 64 KiB
/// messages hardly meet.
Experiment pipelines(Bytes message_bytes) {
  return pipelines_on_shared_links(
      {.pipelines = 24, .stages = 4, .microbatches = 24, .message_bytes = message_bytes});
}

std::vector<std::string> notes_of(const Experiment& experiment, SharingBand band) {
  return simulate(experiment, {.memory = {.samples = false}, .steady = SteadyState::skip, .band = band})
      ->notes;
}

TEST(SharingBand, DenseSharingIsSaid) {
  const Experiment dense = pipelines(8 << 20);
  EXPECT_GT(sharing_band(dense, event_simulation(dense)->makespan_ns), 1e-4);
  EXPECT_THAT(notes_of(dense, SharingBand::find),
              Contains(AllOf(StartsWith("shared links: ±"), HasSubstr(" %"))));
}

TEST(SharingBand, SparseSharingHandsADifferenceOnAsItIs) {
  const Experiment sparse = pipelines(64 << 10);
  EXPECT_TRUE(links_are_shared(sparse));
  const double band = sharing_band(sparse, event_simulation(sparse)->makespan_ns);
  EXPECT_GT(band, 0);
  EXPECT_LE(band, 1e-5);
  EXPECT_TRUE(notes_of(sparse, SharingBand::find).empty());
}

TEST(SharingBand, IsTheSameEachTime) {
  const Experiment dense = pipelines(8 << 20);
  const Ns makespan_ns = event_simulation(dense)->makespan_ns;
  EXPECT_EQ(sharing_band(dense, makespan_ns), sharing_band(dense, makespan_ns));
}

TEST(SharingBand, IsLookedForOnlyWhenAsked) {
  EXPECT_TRUE(notes_of(pipelines(8 << 20), SharingBand::skip).empty());
}

TEST(SharingBand, NothingRunsNothingIsUnsure) {
  Experiment empty = pipelines(0);
  EXPECT_EQ(sharing_band(empty, 0), 0);
}

}  // namespace
}  // namespace penstock

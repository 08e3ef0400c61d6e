// How a launcher's variables place a process.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <tl/expected.hpp>

#include "backend/nccl/nccl_run.hpp"

namespace penstock {
namespace {

tl::expected<std::optional<NcclPlace>, std::string> place_in(
    const std::map<std::string, std::string>& variables, std::int32_t ranks) {
  return nccl_place(
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      ranks);
}

TEST(NcclPlace, WithoutALauncherThereIsNone) { EXPECT_EQ(place_in({}, 2)->has_value(), false); }

TEST(NcclPlace, TorchrunsAgentKeepsTheStoreAndNamesTheDevice) {
  const auto place = place_in({{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"MASTER_ADDR", "10.0.0.1"},
                               {"MASTER_PORT", "29500"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                               {"TORCHELASTIC_RESTART_COUNT", "2"}},
                              8);
  ASSERT_TRUE(place && *place) << place.error();
  EXPECT_EQ((*place)->device, 1);
  EXPECT_EQ((*place)->process.rank, 5);
  EXPECT_EQ((*place)->process.coordinator.address, "10.0.0.1");
  EXPECT_EQ((*place)->process.coordinator.port, 29501) << "the store has MASTER_PORT";
  EXPECT_EQ((*place)->agent_store, 29500);
  EXPECT_EQ((*place)->store_prefix, "penstock/2/");
}

TEST(NcclPlace, OpenMpiAndSlurmNameTheDeviceToo) {
  const auto open_mpi = place_in({{"OMPI_COMM_WORLD_RANK", "3"},
                                  {"OMPI_COMM_WORLD_SIZE", "4"},
                                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                  {"MASTER_PORT", "4000"}},
                                 4);
  ASSERT_TRUE(open_mpi && *open_mpi);
  EXPECT_EQ((*open_mpi)->device, 1);
  EXPECT_EQ((*open_mpi)->agent_store, std::nullopt);
  const auto slurm = place_in(
      {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "2"}, {"MASTER_PORT", "4000"}}, 4);
  ASSERT_TRUE(slurm && *slurm);
  EXPECT_EQ((*slurm)->device, 2);
}

TEST(NcclPlace, WrongVariablesAreRefused) {
  EXPECT_EQ(place_in({{"RANK", "0"}, {"WORLD_SIZE", "3"}, {"MASTER_PORT", "4000"}}, 4).error(),
            "the launcher started 3 processes but the program has 4 ranks; start as many");
  EXPECT_EQ(
      place_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "x"}, {"MASTER_PORT", "4000"}}, 2).error(),
      "LOCAL_RANK: expected a number of 0 or more, got \"x\"");
  EXPECT_EQ(place_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1\n"}, {"MASTER_PORT", "4000"}}, 2)
                .error(),
            "LOCAL_RANK: expected a number of 0 or more, got \"1\\x0a\"");
}

}  // namespace
}  // namespace penstock

// The store where ranks meet, and where a launcher puts them.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/executor/transport.hpp"
#include "backend/nccl/nccl_run.hpp"
#include "backend/nccl/listening_socket.hpp"
#include "backend/nccl/rendezvous.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience(5000);

TEST(Rendezvous, WhatOneRankSetsAnotherGets) {
  auto socket = ListeningSocket::open("127.0.0.1", 0);
  ASSERT_TRUE(socket) << socket.error();
  ASSERT_GT(socket->port(), 0);
  const std::uint16_t port = socket->port();
  Rendezvous host({.port = port, .socket = socket->release()}, kPatience);
  Rendezvous guest({.port = port}, kPatience);
  EXPECT_EQ(guest.look_up("id/0"), std::nullopt);
  const std::string bytes("\0\x01\xff later", 9);
  std::jthread late([&] {
    std::this_thread::sleep_for(milliseconds(50));
    host.set("id/0", bytes);
  });
  EXPECT_EQ(guest.get("id/0", {.stopped = {}, .deadline = kPatience}, "rank 0"), bytes);
}

TEST(Rendezvous, PrefixesKeepUsersOfOneStoreApart) {
  auto socket = ListeningSocket::open("127.0.0.1", 0);
  ASSERT_TRUE(socket) << socket.error();
  const std::uint16_t port = socket->port();
  Rendezvous host({.port = port, .prefix = "penstock/0/", .socket = socket->release()}, kPatience);
  Rendezvous restarted({.port = port, .prefix = "penstock/1/"}, kPatience);
  host.set("id/0", "old");
  EXPECT_EQ(host.look_up("id/0"), "old");
  EXPECT_EQ(restarted.look_up("id/0"), std::nullopt);
}

TEST(Rendezvous, APeerThatNeverComesIsNamed) {
  auto socket = ListeningSocket::open("127.0.0.1", 0);
  ASSERT_TRUE(socket) << socket.error();
  const std::uint16_t port = socket->port();
  Rendezvous host({.port = port, .socket = socket->release()}, kPatience);
  try {
    host.get("id/3", {.stopped = {}, .deadline = milliseconds(50)}, "rank 2 for communicator 2 -> 0");
    FAIL() << "came from nowhere";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "nothing came from rank 2 for communicator 2 -> 0 through the store (id/3)");
  }
  EXPECT_THROW(host.get("id/3", {.stopped = [] { return true; }}, "rank 2"), Stopped);
}

TEST(Rendezvous, APortInUseIsRefused) {
  const auto first = ListeningSocket::open("127.0.0.1", 0);
  ASSERT_TRUE(first) << first.error();
  const auto second = ListeningSocket::open("127.0.0.1", first->port());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(),
            "cannot listen on 127.0.0.1:" + std::to_string(first->port()) + ": Address already in use");
  EXPECT_FALSE(ListeningSocket::open("no.such.host.invalid", 0));
}

TEST(Rendezvous, AStoreThatIsNotThereIsNamed) {
  std::uint16_t port = 0;
  {
    const auto closed = ListeningSocket::open("127.0.0.1", 0);
    ASSERT_TRUE(closed) << closed.error();
    port = closed->port();
  }
  try {
    const Rendezvous nowhere({.port = port}, milliseconds(300));
    FAIL() << "connected to nothing";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("the store at 127.0.0.1:" + std::to_string(port) +
                                                  " cannot be reached: "));
  }
}

// --- launchers --------------------------------------------------------------------------------------------

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
}

}  // namespace
}  // namespace penstock

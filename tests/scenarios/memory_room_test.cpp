// What the machine and the control groups of a process leave it, read from files like theirs.

#include "scenarios/host/memory_room.hpp"

#include <filesystem>
#include <optional>

#include <gtest/gtest.h>

#include "schedules/ir/action.hpp"
#include "tests/scratch_folder.hpp"

namespace penstock {
namespace {

TEST(MemoryRoom, TheNearestBoundOfAControlGroupHolds) {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder.path() / "job" / "step");
  const auto groups = folder.write("groups", "0::/job/step\n");
  const auto left = [&] { return memory_of_control_groups({.list = groups, .mount = folder.path()}); };
  EXPECT_EQ(left(), std::nullopt);
  static_cast<void>(folder.write("job/step/memory.max", "max\n"));
  static_cast<void>(folder.write("job/step/memory.current", "200\n"));
  EXPECT_EQ(left(), std::nullopt);
  static_cast<void>(folder.write("job/memory.max", "1000\n"));
  static_cast<void>(folder.write("job/memory.current", "700\n"));
  EXPECT_EQ(left(), 300);
  // Whatever has read files fills its group with them.
  static_cast<void>(folder.write("job/memory.stat", "anon 250\ninactive_file 300\nactive_file 150\n"));
  EXPECT_EQ(left(), 750);
  static_cast<void>(folder.write("job/step/memory.max", "150\n"));
  EXPECT_EQ(left(), 0);
}

TEST(MemoryRoom, ControlGroupsOfTheFirstVersionHaveOtherNames) {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder.path() / "memory" / "job");
  const auto groups = folder.write("groups", "5:devices:/other\n4:memory:/job\n0::/\n");
  static_cast<void>(folder.write("memory/job/memory.limit_in_bytes", "1000\n"));
  static_cast<void>(folder.write("memory/job/memory.usage_in_bytes", "700\n"));
  static_cast<void>(folder.write("memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 400\n"));
  EXPECT_EQ(memory_of_control_groups({.list = groups, .mount = folder.path()}), 700);
}

TEST(MemoryRoom, AQuarterOfWhatItsControlGroupLeavesIsForOthers) {
  const ScratchFolder folder;
  const auto groups = folder.write("groups", "0::/\n");
  static_cast<void>(folder.write("memory.max", "1000\n"));
  static_cast<void>(folder.write("memory.current", "200\n"));
  EXPECT_EQ(memory_to_take({.list = groups, .mount = folder.path()}), 600);
}

TEST(MemoryRoom, TheMachineHasLessWithinReachThanItHas) {
  const auto available = available_memory();
  const auto within_reach = memory_within_reach();
  ASSERT_TRUE(available);
  ASSERT_TRUE(within_reach);
  EXPECT_GT(*within_reach, 0);
  EXPECT_LT(*within_reach, *available);
}

TEST(MemoryRoom, AThreadsStackIsAsLargeAsItIsAskedFor) {
  const Bytes usual = stack_of_a_thread();
  EXPECT_GE(usual, Bytes{1} << 14);
}

}  // namespace
}  // namespace penstock

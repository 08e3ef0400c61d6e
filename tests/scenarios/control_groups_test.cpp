// The control groups of a process: its own and those above it, of the versions that are mounted.

#include "scenarios/host/control_groups.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scratch_folder.hpp"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// "second /groups/job": below a mount at /groups.
std::vector<std::string> groups_in(std::string_view list, std::string_view controller) {
  const ScratchFolder folder;
  const auto file = folder.write("groups", list);
  std::vector<std::string> words;
  for (const ControlGroup& group : control_groups(controller, {.list = file, .mount = "/groups"})) {
    const bool is_first = group.version == ControlGroupVersion::first;
    words.push_back((is_first ? "first " : "second ") + group.folder.lexically_normal().string());
  }
  return words;
}

TEST(ControlGroups, OfTheSecondVersionAllControllersHaveOne) {
  EXPECT_THAT(groups_in("0::/job/step\n", "memory"),
              ElementsAre("second /groups/job/step", "second /groups/job", "second /groups/"));
}

TEST(ControlGroups, OfTheFirstVersionEachControllerHasItsOwn) {
  const std::string_view both = "8:pids:/jobs\n4:memory:/\n1:name=systemd:/user\n0::/\n";
  EXPECT_THAT(groups_in(both, "pids"),
              ElementsAre("first /groups/pids/jobs", "first /groups/pids/", "second /groups/"));
  EXPECT_THAT(groups_in(both, "memory"), ElementsAre("first /groups/memory/", "second /groups/"));
}

TEST(ControlGroups, WhatIsNoListNamesNone) {
  EXPECT_THAT(groups_in("", "memory"), IsEmpty());
  EXPECT_THAT(groups_in("memory\n", "memory"), IsEmpty());
  EXPECT_THAT(control_groups("memory", {.list = "/nowhere", .mount = "/"}), IsEmpty());
}

TEST(ControlGroups, WhatBoundsNothingIsNoNumber) {
  const ScratchFolder folder;
  EXPECT_EQ(number_in(folder.write("bounded", "4096\n")), 4096);
  EXPECT_EQ(number_in(folder.write("unbounded", "max\n")), std::nullopt);
  EXPECT_EQ(number_in(folder.path() / "absent"), std::nullopt);
}

}  // namespace
}  // namespace penstock

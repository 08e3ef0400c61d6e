// Which hint a mistyped name gets, and that a name which is spelled otherwise gets none.

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "schedules/rules/generators.hpp"
#include "schedules/rules/schedule_names.hpp"
#include "text/nearest_name.hpp"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 5> kKnown = {"stages", "microbatches", "event", "b300", "gb200"};

TEST(NearestName, ALetterThatIsAddedDroppedReplacedOrSwappedIsASlip) {
  EXPECT_EQ(likely_name("microbatch", kKnown), "microbatches");
  EXPECT_EQ(likely_name("stage", kKnown), "stages");
  EXPECT_EQ(likely_name("stagos", kKnown), "stages");
  EXPECT_EQ(likely_name("stagse", kKnown), "stages");
  EXPECT_EQ(likely_name("evetn", kKnown), "event") << "two letters that changed their places are one slip";
  EXPECT_EQ(likely_name("STAGES", kKnown), "stages");
}

TEST(NearestName, ANameThatIsSpelledOtherwiseGetsNoHint) {
  for (const char* typed : {"mi300x", "h20", "rtx4090", "", "stagnation", "b3"})
    EXPECT_EQ(likely_name(typed, kKnown), std::nullopt) << typed;
  EXPECT_EQ(did_you_mean("mi300x", kKnown), "");
  EXPECT_EQ(did_you_mean("stagse", kKnown), "; did you mean stages?");
}

TEST(NearestName, SomeWordsOfANameAreThatName) {
  constexpr std::array<std::string_view, 2> kKeys = {"intra_bandwidth", "memory-limit"};
  EXPECT_EQ(likely_name("bandwidth", kKeys), "intra_bandwidth");
  EXPECT_EQ(likely_name("memory", kKeys), "memory-limit");
  EXPECT_EQ(likely_name("band", kKeys), std::nullopt);
}

TEST(NearestName, AWholeFileIsComparedWithNothing) {
  EXPECT_EQ(likely_name(std::string(50'000'000, 's'), kKnown), std::nullopt);
}

TEST(NearestName, OtherProgramsNamesOfSchedulesAreKnown) {
  const auto name_of = [](std::string_view typed) {
    const ScheduleInfo* found = find_schedule(typed);
    return found == nullptr ? std::string("none") : std::string(found->name);
  };
  for (const char* typed : {"one_f_one_b", "1F1B", "Schedule1F1B", "TrainSchedule", "non-interleaved",
                            "forward_backward_pipelining_without_interleaving", "OneForwardOneBackward"})
    EXPECT_EQ(name_of(typed), "1f1b") << typed;
  for (const char* typed : {"FThenB", "F-then-B", "afab", "AFAB", "AllForwardAllBackward", "GPipe"})
    EXPECT_EQ(name_of(typed), "gpipe") << typed;
  for (const char* typed : {"vpp", "VPP", "Interleaved1F1B", "1F1B-interleaved", "depth-first",
                            "forward_backward_pipelining_with_interleaving"})
    EXPECT_EQ(name_of(typed), "interleaved") << typed;
  for (const char* typed : {"ZBH1", "zbh1"}) EXPECT_EQ(name_of(typed), "zb-h1") << typed;
  for (const char* typed : {"ZBV", "ZBVPP", "v-zb", "zero_bubble_v"})
    EXPECT_EQ(name_of(typed), "zb-v") << typed;
  EXPECT_EQ(name_of("DualPipeV"), "dualpipe-v");
  EXPECT_EQ(name_of("ZBVZeroBubble"), "zbv-zero-bubble");
  EXPECT_EQ(name_of("InterleavedZeroBubble"), "interleaved-zero-bubble");
}

TEST(NearestName, AMistypedAliasNamesItsSchedule) {
  EXPECT_EQ(unknown_schedule("1f2b"),
            "unknown schedule \"1f2b\"; did you mean 1f1b? `penstock schedules` lists all");
  EXPECT_EQ(unknown_schedule("fill_drian"),
            "unknown schedule \"fill_drian\"; did you mean gpipe? `penstock schedules` lists all");
  EXPECT_EQ(unknown_schedule("round robin"),
            "unknown schedule \"round robin\"; `penstock schedules` lists all");
}

}  // namespace
}  // namespace penstock

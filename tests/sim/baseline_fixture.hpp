#pragma once
// A fixture with a folder of scenarios, for which tests make a baseline and check it.

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/hold/baseline.hpp"

namespace penstock {

inline constexpr const char* kOneFOneB = "schedule: {name: 1f1b, stages: 4, microbatches: 8}\n";

// If there is one queue between the ranks, SEND_F1 and RECV_B0 wait for each other.
inline constexpr const char* kCrossed =
    "penstock program 1\nschedule custom\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
    "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP\n"
    "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1STEP\n";
inline constexpr const char* kStraight =
    "penstock program 1\nschedule custom\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
    "rank 0: 0F0 0SEND_F0 0RECV_B0 0F1 0SEND_F1 0B0 0RECV_B1 0B1 0STEP\n"
    "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1STEP\n";

// Rank 1 needs microbatch 1 first, but rank 0 sends microbatch 0 first.
inline constexpr const char* kSwapped =
    "penstock program 1\nschedule custom\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
    "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B1 0B1 0RECV_B0 0B0 0STEP\n"
    "rank 1: 1RECV_F1 1F1 1B1 1SEND_B1 1RECV_F0 1F0 1B0 1SEND_B0 1STEP\n";

class BaselineTest : public testing::Test {
 protected:
  BaselineTest()
      : directory_(std::filesystem::path(testing::TempDir()) /
                   fmt::format("penstock-baseline-{}", ::getpid())) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  ~BaselineTest() override { std::filesystem::remove_all(directory_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name, std::ios::binary) << text;
  }

  enum class Holds : std::uint8_t { figures, programs };

  /// Returns a baseline of the files in their current state.
  Baseline baseline_of(const std::vector<std::string>& files, Holds what = Holds::figures) const {
    Baseline baseline;
    baseline.holds_programs = what == Holds::programs;
    for (const std::string& file : files) baseline.entries.push_back({file, std::nullopt});
    auto measured = updated(baseline, directory_);
    EXPECT_TRUE(measured) << measured.error();
    return measured.value_or(baseline);
  }

  BaselineVerdict verdict_on(const Baseline& baseline) const {
    const auto verdicts = compare(baseline, directory_);
    EXPECT_EQ(verdicts.size(), 1U);
    return verdicts.at(0);
  }

  std::filesystem::path directory_;
};

}  // namespace penstock

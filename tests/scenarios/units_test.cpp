// Numbers with units, as tables of text against value and of text against message.

#include "scenarios/read/quantities.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

template <typename Value>
struct Reads {
  std::string_view text;
  Value value;
};

TEST(Units, DurationsAreExactNanoseconds) {
  const std::vector<Reads<Ns>> table = {
      {"0", 0},
      {"0.0", 0},
      {"0 ms", 0},
      {"100 ns", 100},
      {"5 us", 5'000},
      {"5us", 5'000},
      {"  5   us ", 5'000},
      {"5 µs", 5'000},
      {"1 ms", 1'000'000},
      {"0.1 ms", 100'000},
      {".5 ms", 500'000},
      {"5. ms", 5'000'000},
      {"22.307 ms", 22'307'000},
      {"2.5 s", 2'500'000'000},
      {"3 min", 180'000'000'000},
      {"1.5 h", 5'400'000'000'000},
      {"1e3 ns", 1'000},
      {"1e-3 s", 1'000'000},
      {"1E+2 us", 100'000},
      {"0.4 ns", 0},
      {"0.5 ns", 1},
      {"1.4999 ns", 1},
      {"1e-300 s", 0},
      {"0.1000000000000000055511151231257827 ms", 100'000},
      {"9223372036854775807 ns", std::numeric_limits<Ns>::max()},
      {"9223372036.854775807 s", std::numeric_limits<Ns>::max()},
  };
  for (const auto& [text, value] : table) EXPECT_EQ(parse_duration(text), value) << text;
}

TEST(Units, BytesKnowDecimalAndBinaryPrefixes) {
  const std::vector<Reads<Bytes>> table = {
      {"0", 0},
      {"12 B", 12},
      {"4 KiB", 4096},
      {"4 kB", 4000},
      {"16 MiB", 16LL << 20},
      {"500 MB", 500'000'000},
      {"1.5 GiB", 3LL << 29},
      {"80 GiB", 80LL << 30},
      {"2 TB", 2'000'000'000'000},
      {"1 TiB", 1LL << 40},
      {"7 PiB", 7LL << 50},
      {"0.6 B", 1},
  };
  for (const auto& [text, value] : table) EXPECT_EQ(parse_bytes(text), value) << text;
}

TEST(Units, BandwidthsAreBytesASecondAndBitsAreAnEighth) {
  const std::vector<Reads<double>> table = {
      {"50 GiB/s", 50.0 * (1LL << 30)},
      {"25 GB/s", 25e9},
      {"10 Gb/s", 1.25e9},
      {"400 Gbit/s", 50e9},
      {"8 b/s", 1},
      {"0.1 GB/s", 1e8},
      {"22.307 GB/s", 22.307e9},
      {"1e3 kB/s", 1e6},
      {"1e+3 kB/s", 1e6},
      {"unlimited", std::numeric_limits<double>::infinity()},
  };
  for (const auto& [text, value] : table) EXPECT_EQ(parse_bandwidth(text), value) << text;
}

TEST(Units, RatesCountFloatingPointOperations) {
  EXPECT_EQ(parse_flops("15.7 TFLOP/s"), 15.7e12);
  EXPECT_EQ(parse_flops("989 TFLOPS"), 989e12);
  EXPECT_EQ(parse_flops("1 PFLOP/s"), 1e15);
  EXPECT_EQ(parse_flops("0"), 0.0);
}

/// The part of an error behind "expected ... (units: ...), ".
template <typename Value>
std::string complaint(const tl::expected<Value, std::string>& result) {
  if (result) return "no error";
  const std::size_t got = result.error().find("), got ");
  return got == std::string::npos ? result.error() : result.error().substr(got + 3);
}

TEST(Units, DurationsThatAreNoneSayWhy) {
  const std::vector<Reads<std::string_view>> table = {
      {"", "got nothing"},
      {"fast", "got \"fast\""},
      {"5", "got \"5\": the unit is missing"},
      {"5 u", "got \"5 u\": unknown unit \"u\""},
      {"5 MS", "got \"5 MS\": unknown unit \"MS\""},
      {"1,5 ms", "got \"1,5 ms\": unknown unit \",5 ms\""},
      {"1 ms 2 us", "got \"1 ms 2 us\": unknown unit \"ms 2 us\""},
      {"-1 ms", "got \"-1 ms\": it must not be negative"},
      {"inf s", "got \"inf s\": it must be finite"},
      {".nan", "got \".nan\": it must be finite"},
      {"9223372036854775808 ns", "got \"9223372036854775808 ns\": the number is too large"},
      {"1e30 h", "got \"1e30 h\": the number is too large"},
      {"1e99999999999 s", "got \"1e99999999999 s\": the number is too large"},
  };
  for (const auto& [text, message] : table) EXPECT_EQ(complaint(parse_duration(text)), message) << text;
}

TEST(Units, SizesThatAreNoneSayWhy) {
  EXPECT_EQ(complaint(parse_bytes("8 Mb")), "got \"8 Mb\": b is a bit, a size takes bytes (B)");
  EXPECT_EQ(complaint(parse_bytes("8 KB")), "got \"8 KB\": write kB (1000 B) or KiB (1024 B)");
  EXPECT_EQ(complaint(parse_bytes("8")), "got \"8\": the unit is missing");
  EXPECT_EQ(complaint(parse_bytes("9000 PiB")), "got \"9000 PiB\": the number is too large");
}

TEST(Units, BandwidthsThatAreNoneSayWhy) {
  EXPECT_EQ(complaint(parse_bandwidth("10 GB")), "got \"10 GB\": unknown unit \"GB\"");
  EXPECT_EQ(complaint(parse_bandwidth("10 XB/s")), "got \"10 XB/s\": unknown unit \"XB/s\"");
  EXPECT_EQ(complaint(parse_bandwidth("0 GB/s")), "got \"0 GB/s\": it must be more than 0");
  EXPECT_EQ(complaint(parse_bandwidth("1e400 B/s")), "got \"1e400 B/s\": the number is too large");
  EXPECT_EQ(complaint(parse_bandwidth("unlimitted")), "got \"unlimitted\"");
}

TEST(Units, EachErrorListsTheUnits) {
  EXPECT_EQ(
      parse_duration("5").error(),
      "expected a duration such as \"5 us\" (units: ns, us, ms, s, min, h), got \"5\": the unit is missing");
}

TEST(Units, DurationsPrintInTheLargestUnitOfAtMostThreeDecimals) {
  EXPECT_EQ(duration_text(0), "0 ns");
  EXPECT_EQ(duration_text(7), "7 ns");
  EXPECT_EQ(duration_text(1'500), "1.5 us");
  EXPECT_EQ(duration_text(20'000), "20 us");
  EXPECT_EQ(duration_text(22'307'000), "22.307 ms");
  EXPECT_EQ(duration_text(22'307'001), "22307.001 us");
  EXPECT_EQ(duration_text(3'000'000'000), "3 s");
}

}  // namespace
}  // namespace penstock

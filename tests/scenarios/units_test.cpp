// Tests numbers with units, by tables of texts with their values or error messages. Also tests that every key
// for a number refuses texts that are not decimal numbers.

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tl/expected.hpp>

#include "scenarios/read/quantities.hpp"
#include "schedules/ir/action.hpp"
#include "tests/scenarios/read_scenario.hpp"
#include "tests/test_files.hpp"

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

/// Returns the part of an error message after "expected ... (units: ...), ".
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

// Tests every key for a number with texts that some YAML readers accept as numbers: other bases, base 60,
// infinities, signs, separators. Each key must refuse them. A leading zero has no effect.

/// Keys with the same unit, and a document in which they can be set.
struct Keys {
  std::string document;
  std::string unit;  ///< empty for a number without a unit
  std::vector<std::string> keys;
};

std::vector<Keys> all_keys() {
  const std::string schedule = "schedule: {name: 1f1b, stages: 2, microbatches: 4}\n";
  const std::string stages = "model: {stages: {forward: 1 ms, backward: 2 ms}}\n" + schedule;
  const std::string layers =
      "model: {layers: [{name: a, forward: 1 ms, backward: 1 ms}, {name: b, forward: 1 ms, backward: 1 "
      "ms}]}\n"
      "partition: [1]\n" +
      schedule;
  const std::string failures = stages + "training: {failures: {mtbf: 1 h}}\n";
  const std::string uniform = stages + "cluster: {preset: uniform, devices: 4}\n";
  const std::string servers =
      stages +
      "cluster: {preset: two-level, nodes: 2, devices_per_node: 2, intra_bandwidth: 1 GB/s, "
      "inter_bandwidth: 1 GB/s}\n";
  const std::string listed =
      stages + "cluster: {devices: [{name: a}, {name: b}], links: [{between: [a, b], bandwidth: 1 GB/s}]}\n";
  const std::string transformer =
      "model: {transformer: {layers: 4, hidden: 1024, heads: 16, sequence: 128, vocabulary: 5000, "
      "efficiency: "
      "0.4}}\ncluster: {devices: 2, flops: 100 TFLOP/s}\n" +
      schedule;
  const std::string device =
      "model: {huggingface: " + source_path("scenarios/library/models/llama-3.1-8b.json") +
      ", sequence: 2048}\ncluster: {device: h100-sxm}\nparallel: {tensor: 1}\n"
      "training: {global_batch_size: 8}\nschedule: {name: 1f1b, stages: 2}\n";
  return {
      {stages,
       "ms",
       {"model.stages.forward", "model.stages.backward", "model.stages.backward_input",
        "model.stages.backward_weight", "model.stages.recompute", "model.stages.overlapped_pair",
        "model.stages.pair_hidden", "model.stages.step", "model.stages.overhead", "host.launch_overhead"}},
      {stages,
       "MB",
       {"model.stages.activation", "model.stages.gradient", "model.stages.kept",
        "model.stages.released_by_input", "model.stages.recomputed", "model.stages.recomputed_at_once",
        "model.stages.input", "model.stages.weights", "model.stages.gradients",
        "model.stages.optimizer_state", "model.stages.transient", "schedule.memory_limit", "schedule.eager"}},
      {stages,
       "",
       {"schedule.stages", "schedule.microbatches", "schedule.virtual_stages", "schedule.replicas",
        "schedule.data_parallel", "schedule.buckets", "schedule.sharding", "schedule.group_size",
        "schedule.slices", "schedule.warmup", "schedule.depth", "schedule.capacity", "host.launch_ahead",
        "training.micro_batch_size", "training.global_batch_size", "training.iterations",
        "training.gradient_bytes"}},
      {failures,
       "h",
       {"training.failures.mtbf", "training.failures.checkpoint_cost", "training.failures.restart",
        "training.failures.checkpoint_every"}},
      {uniform, "", {"cluster.devices", "cluster.price"}},
      {uniform, "us", {"cluster.latency"}},
      {uniform, "GB", {"cluster.memory", "cluster.reserve"}},
      {uniform, "GB/s", {"cluster.bandwidth"}},
      {uniform, "TFLOP/s", {"cluster.flops"}},
      {servers, "", {"cluster.nodes", "cluster.devices_per_node", "cluster.price"}},
      {servers, "us", {"cluster.intra_latency", "cluster.inter_latency"}},
      {servers, "GB", {"cluster.memory"}},
      {servers, "GB/s", {"cluster.intra_bandwidth", "cluster.inter_bandwidth"}},
      {listed, "GB", {"cluster.devices.0.memory"}},
      {listed, "TFLOP/s", {"cluster.devices.0.flops"}},
      {listed, "GB/s", {"cluster.links.0.bandwidth"}},
      {listed, "us", {"cluster.links.0.latency"}},
      {layers, "ms", {"model.layers.0.forward", "model.layers.0.backward"}},
      {layers,
       "MB",
       {"model.layers.0.output", "model.layers.0.kept", "model.layers.0.weights",
        "model.layers.0.transient"}},
      {layers, "", {"partition.0"}},
      {transformer,
       "",
       {"model.transformer.layers", "model.transformer.hidden", "model.transformer.heads",
        "model.transformer.sequence", "model.transformer.vocabulary", "model.transformer.feed_forward",
        "model.transformer.bytes_per_value", "model.transformer.efficiency",
        "model.transformer.tensor_parallel"}},
      {transformer, "GB/s", {"model.transformer.tensor_bandwidth"}},
      {device,
       "",
       {"model.sequence", "model.layers", "model.multi_token", "parallel.tensor", "parallel.context",
        "parallel.expert", "parallel.data", "cluster.nodes", "cluster.nvlink_devices",
        "cluster.devices_per_node", "cluster.sustained", "cluster.collectives", "cluster.step_fraction",
        "cluster.memory_efficiency", "cluster.nvlink_efficiency", "cluster.network_efficiency",
        "cluster.price", "training.expert_factor"}},
      {device, "TFLOP/s", {"cluster.flops", "cluster.fp8_flops", "cluster.fp4_flops"}},
      {device, "GB", {"cluster.memory"}},
      {device, "GB/s", {"cluster.memory_bandwidth", "cluster.nvlink", "cluster.network"}},
      {device, "us", {"cluster.latency", "training.expert_layer", "training.host_layer"}},
  };
}

std::string with_unit(const std::string& number, const std::string& unit) {
  return unit.empty() ? number : number + " " + unit;
}

TEST(NumberValues, WhatIsNoDecimalNumberIsRefusedByItsKey) {
  for (const Keys& keys : all_keys()) {
    for (const std::string& key : keys.keys) {
      for (const std::string number : {"0x2", "0o10", "0b1", "1e999", ".inf", "-.inf", ".nan", "inf", "nan",
                                       "1:30", "-1", "1_000", "+5", "5 5", "~", "true", "one"}) {
        EXPECT_THAT(refusal(keys.document, {{.key = key, .value = with_unit(number, keys.unit)}}),
                    testing::StartsWith("--set " + key + ": "))
            << number;
      }
    }
  }
}

TEST(NumberValues, TwentyDigitsAreMoreThan64Bits) {
  for (const Keys& keys : all_keys()) {
    // Rates and prices are not integers, so they are skipped.
    const bool is_rate = keys.unit.ends_with("/s");
    for (const std::string& key : keys.keys) {
      if (is_rate || key == "cluster.price") continue;
      EXPECT_THAT(
          refusal(keys.document, {{.key = key, .value = with_unit("99999999999999999999", keys.unit)}}),
          testing::StartsWith("--set " + key + ": "));
    }
  }
}

TEST(NumberValues, ALeadingZeroIsNoBase) {
  for (const Keys& keys : all_keys()) {
    for (const std::string& key : keys.keys) {
      if (key == "schedule.sharding") continue;  // its value is one of a few words
      // 008 must not be read as an octal number.
      for (const std::string digit : {"1", "2", "8"}) {
        const std::vector<Override> plain = {{.key = key, .value = with_unit(digit, keys.unit)}};
        if (refusal(keys.document, plain) != "no error") continue;
        const std::vector<Override> padded = {{.key = key, .value = with_unit("00" + digit, keys.unit)}};
        EXPECT_EQ(refusal(keys.document, padded), "no error") << key;
      }
    }
  }
  const auto microbatches = [](const std::string& number) {
    return read_scenario("schedule: {name: 1f1b, stages: 2, microbatches: " + number + "}\n")
        .batch.microbatches;
  };
  EXPECT_EQ(microbatches("010"), 10);
  EXPECT_EQ(microbatches("08"), 8);
}

}  // namespace
}  // namespace penstock

// Every key that takes a number, with texts that some reader of YAML takes for one: other bases, base 60,
// infinities, signs, separators. Each is refused by its key; a leading zero changes nothing.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scenarios/read_scenario.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

/// Keys of one unit, in a document that has the places for them.
struct Keys {
  std::string document;
  std::string unit;  ///< empty: a number alone
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
        "model.stages.step", "model.stages.overhead", "host.launch_overhead"}},
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
        "cluster.price"}},
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
    // Rates and prices are no whole numbers.
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
      if (key == "schedule.sharding") continue;  // one of a few words
      // 008 is no octal number.
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

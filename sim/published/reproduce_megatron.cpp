// Predicts figures of Megatron's transformers: parameters, operations and times for different numbers of
// devices (Narayanan et al., SC'21; Smith et al., MT-NLG 530B), and the cost of recomputation (Korthikanti
// et al., MLSys'23). The papers do not publish how efficient single layers are. Therefore times are
// predicted for the devices' peak rate, and only their ratios to the first row are compared.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/model/model.hpp"
#include "scenarios/model/transformer.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/published/reproduce.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

using Figures = std::vector<ReproducedFigure>;

constexpr double kA100Flops = 312e12;
constexpr double kTokens = 300e9;  // number of tokens of a training in table 2

/// Returns a shape with the common settings of the three papers: sequences of 2048 tokens, the padded
/// vocabulary of GPT-2, and 8 devices for each rank.
TransformerShape gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads, BlockRecompute recompute) {
  return {.layers = layers,
          .hidden = hidden,
          .heads = heads,
          .sequence = 2048,
          .vocabulary = 51200,
          .feed_forward = 4 * hidden,
          .tensor_parallel = 8,
          .recompute = recompute};
}

const TransformerShape kGpt175 = gpt(96, 12288, 96, BlockRecompute::full);
const TransformerShape kGpt530 = gpt(105, 20480, 128, BlockRecompute::full);

/// Returns the layers with their times at the devices' peak rate. The collectives of tensor parallelism take
/// no time here. Only ratios to the first row are compared, and the first row contains their cost, too.
LayerGraph layers_at_peak(const TransformerShape& shape) {
  auto graph = transformer_layers(
      shape, {.flops_per_second = kA100Flops, .tensor_bytes_per_second = kUnlimitedBandwidth});
  if (!graph) throw std::logic_error(graph.error());
  return *std::move(graph);
}

/// A pipeline of ranks with 8 devices each.
struct Pipeline {
  std::int32_t stages = 1;
  std::int32_t microbatches = 1;  ///< number of microbatches; each is one sequence
  std::int32_t virtual_stages = 1;
};

/// Returns the seconds of one iteration at the devices' peak rate, without communication time.
double seconds_at_peak(const TransformerShape& shape, const Pipeline& pipeline) {
  Scenario scenario;
  scenario.model = layers_at_peak(shape);
  scenario.schedule = pipeline.virtual_stages == 1 ? "1f1b" : "interleaved";
  scenario.shape.stages = pipeline.stages;
  scenario.shape.virtual_stages = pipeline.virtual_stages;
  scenario.batch.microbatches = pipeline.microbatches;
  scenario.partition.rule = Partition::Rule::balanced;
  const auto result = simulate_scenario(
      scenario, {.memory = {.samples = false}, .steady = SteadyState::skip, .timeline = TimelineKept::none});
  if (!result) throw std::logic_error(result.error().message);
  return static_cast<double>(result->makespan_ns) / 1e9;
}

double tflops_per_device(double flops, double seconds, std::int32_t devices) {
  return flops / seconds / devices / 1e12;
}

// --- SC'21 ----------------------------------------------------------------------------------------------

/// Returns the figures of table 1: the numbers of parameters, rounded to one decimal as in the paper.
Figures table_1() {
  Figures figures;
  struct Row {
    std::int64_t layers;
    std::int64_t hidden;
    std::int64_t heads;
    double billions;
  };
  for (const Row& row : {Row{24, 2304, 24, 1.7},
                         {30, 3072, 32, 3.6},
                         {40, 6144, 48, 18.4},
                         {48, 8192, 64, 39.1},
                         {60, 10240, 80, 76.1},
                         {96, 16384, 128, 310.1},
                         {105, 20480, 128, 529.6}}) {
    figures.push_back(rounded(
        1, fmt::format("table 1, {} layers of width {}: billions of parameters", row.layers, row.hidden),
        row.billions, parameter_count(gpt(row.layers, row.hidden, row.heads, BlockRecompute::none)) / 1e9));
  }
  return figures;
}

/// A model of table 2 (method PTD-P), and its rows for several numbers of devices.
struct ScaledModel {
  std::string_view name;
  const TransformerShape& shape;
  std::int32_t stages;
  std::int32_t batch;
  struct Row {
    std::int32_t devices;
    double tflops;
    double days;
  };
  std::vector<Row> rows;
};

/// Returns the figures of one model in table 2: rates, and days of training. The printed rate of the
/// model's first row determines the scale.
Figures table_2(const ScaledModel& model) {
  Figures figures;
  const double flops = hardware_flops(model.shape);
  const auto seconds = [&](std::int32_t devices) {
    const std::int32_t pipelines = devices / (8 * model.stages);
    return seconds_at_peak(model.shape, {.stages = model.stages, .microbatches = model.batch / pipelines});
  };
  const ScaledModel::Row& first = model.rows.front();
  const double first_work = seconds(first.devices) * first.devices;
  for (const ScaledModel::Row& row : model.rows) {
    // All rows do the same work, so the rate of a device is inversely proportional to the total time of all
    // devices. The printed rate of the first row determines the factor.
    const double tflops = first.tflops * first_work / (seconds(row.devices) * row.devices);
    const std::string what = fmt::format("table 2, {}, {} devices: ", model.name, row.devices);
    if (row.devices != first.devices)
      figures.push_back(equal(Tolerance::ratio, what + "TFLOP/s a device", row.tflops, tflops));
    // `flops` is the number of operations for one sequence of 2048 tokens.
    const double days = flops * kTokens / 2048 / (tflops * 1e12 * row.devices) / 86400;
    figures.push_back(equal(Tolerance::ratio, what + "days for 300 billion tokens", row.days, days));
  }
  return figures;
}

/// Returns the times of MT-NLG's iterations with a fixed batch on 8, 10 and 12 pipelines. The printed time
/// for 8 pipelines determines the scale.
Figures mt_nlg() {
  Figures figures;
  struct Row {
    std::int32_t pipelines;
    double seconds;
    double tflops;  // rate of a device; 0 if the paper does not print it
  };
  constexpr std::int32_t kBatch = 1920;
  const auto predicted = [](std::int32_t pipelines) {
    return seconds_at_peak(kGpt530, {.stages = 35, .microbatches = kBatch / pipelines});
  };
  const double first = predicted(8);
  for (const Row& row : {Row{8, 60.1, 126}, {10, 50.2, 121}, {12, 44.4, 0}}) {
    // Each pipeline has 35 stages of 8 devices.
    const std::int32_t devices = row.pipelines * 280;
    const std::string what = fmt::format("MT-NLG 530B, {} devices: ", devices);
    if (row.tflops > 0) {
      figures.push_back(equal(Tolerance::size, what + "TFLOP/s a device in the published time", row.tflops,
                              tflops_per_device(kBatch * hardware_flops(kGpt530), row.seconds, devices)));
    }
    if (row.pipelines == 8) continue;
    figures.push_back(equal(Tolerance::ratio, what + "seconds an iteration", row.seconds,
                            60.1 * predicted(row.pipelines) / first));
  }
  return figures;
}

// --- recomputation --------------------------------------------------------------------------------------

/// Returns the figures of table 5: the rates of operations that follow from the published times. Also
/// returns the ratio of the time with full recomputation to the time with selective recomputation.
Figures table_5() {
  Figures figures;
  struct Row {
    std::string_view name;
    TransformerShape shape;
    Pipeline pipeline;
    double full_seconds;
    double selective_seconds;
    double model_percent;
    double hardware_percent;
  };
  for (const Row& row :
       {Row{"175B", gpt(96, 12288, 96, BlockRecompute::selective), {8, 64, 3}, 18.13, 13.75, 51.4, 52.8},
        Row{"1T", gpt(128, 25600, 160, BlockRecompute::selective), {64, 512, 1}, 94.42, 71.49, 56.3, 57.0}}) {
    // The job is a single pipeline, in which each rank has 8 devices.
    const std::int32_t devices = 8 * row.pipeline.stages;
    const auto percent = [&](double flops) {
      return 100e12 / kA100Flops *
             tflops_per_device(flops * row.pipeline.microbatches, row.selective_seconds, devices);
    };
    const std::string what = fmt::format("table 5, {}: ", row.name);
    figures.push_back(rounded(1, what + "% of the peak, the model's operations", row.model_percent,
                              percent(model_flops(row.shape))));
    figures.push_back(rounded(1, what + "% of the peak, all operations", row.hardware_percent,
                              percent(hardware_flops(row.shape))));
    TransformerShape full = row.shape;
    full.recompute = BlockRecompute::full;
    figures.push_back(equal(Tolerance::ratio, what + "full over selective recomputation, times",
                            row.full_seconds / row.selective_seconds,
                            seconds_at_peak(full, row.pipeline) / seconds_at_peak(row.shape, row.pipeline)));
    figures.back().note = "published selective runs have sequence parallelism, full ones have not";
  }
  return figures;
}

/// Returns the figures of table 4: the times of one layer. The printed time without recomputation
/// determines the scale.
Figures table_4() {
  Figures figures;
  const auto milliseconds = [](BlockRecompute recompute) {
    // Layer 0 is the embedding. All layers after it are the same.
    const Layer block = layers_at_peak(gpt(48, 6144, 64, recompute)).layers[1];
    return static_cast<double>(block.forward_ns + block.backward_ns) / 1e6;
  };
  const double scale = 19.6 / milliseconds(BlockRecompute::none);
  figures.push_back(equal(Tolerance::ratio, "table 4, 22B, F + B of a layer, selective: ms", 20.9,
                          scale * milliseconds(BlockRecompute::selective)));
  figures.push_back(equal(Tolerance::ratio, "table 4, 22B, F + B of a layer, full: ms", 27.2,
                          scale * milliseconds(BlockRecompute::full)));
  return figures;
}

Figures joined(const std::vector<Figures>& parts) {
  Figures all;
  for (const Figures& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

std::vector<ReproducedFigure> reproduce_megatron_sc21() {
  return joined({table_1(),
                 table_2({.name = "174.6B",
                          .shape = kGpt175,
                          .stages = 12,
                          .batch = 1536,
                          .rows = {{384, 153, 84}, {768, 149, 43}, {1536, 141, 23}}}),
                 table_2({.name = "529.6B",
                          .shape = kGpt530,
                          .stages = 35,
                          .batch = 2240,
                          .rows = {{560, 171, 156}, {1120, 167, 80}, {2240, 159, 42}}}),
                 mt_nlg()});
}

std::vector<ReproducedFigure> reproduce_recomputation() { return joined({table_4(), table_5()}); }

}  // namespace penstock

// Compares pairs of configurations. For any prices, the second one cannot be worse than the first one. For
// example, it has more bandwidth, less recomputation, or more copies that share state. Configurations are
// drawn at random from the search spaces of `tune`. Their orders are fixed, and their layers are divided by
// number. A shorter action therefore cannot make a step longer.
//
// PENSTOCK_METAMORPHIC=1500 sim_tests --gtest_filter='Metamorphic.*' draws 1500 pairs of each relation.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "report/result/result.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/tuning_space.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/sim/tune_request.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

/// The number of pairs of each relation in a usual run. All relations together have about a thousand pairs,
/// which take a second.
constexpr std::size_t kPairs = 80;
/// The fraction by which a better configuration may seem longer, because costs are rounded to nanoseconds.
constexpr double kRounding = 1e-6;

std::size_t pair_count() {
  const char* asked = std::getenv("PENSTOCK_METAMORPHIC");
  return asked == nullptr ? kPairs : static_cast<std::size_t>(std::stoul(asked));
}

Workload& work_of(Scenario& scenario) { return std::get<DeviceModel>(scenario.model).work; }

/// Settings that a search does not choose.
struct DrawnSettings {
  Framework framework = Framework::megatron_te;
  bool tensor_overlap = true;
  bool data_overlap = true;
  bool sequence_parallel = true;
  double network = 1;  ///< the bandwidth of the network, divided by that of the device's usual one
};

struct Drawn {
  const TuneRequest* request = nullptr;
  Configuration configuration;
  DrawnSettings settings{};

  Scenario scenario() const {
    Scenario scenario = scenario_of(*request, configuration);
    Workload& work = work_of(scenario);
    work.framework = settings.framework;
    work.parallel.tensor_overlap = settings.tensor_overlap;
    work.parallel.data_overlap = settings.data_overlap;
    work.parallel.sequence_parallel = settings.sequence_parallel;
    work.device.network_bytes_per_second *= settings.network;
    return scenario;
  }
  const Workload& work() const { return model_of(*request).work; }
  std::string name() const {
    return fmt::format(
        "{} of {} layers on {} x {}, batch {}: {}, {}, tensor_overlap {}, data_overlap {}, "
        "sequence_parallel {}, network x {}",
        work().model.family, work().model.layers.size(), configuration.nodes, work().device.name,
        request->global_batch_size, fmt::join(choice_texts(*request, configuration), " "),
        to_text(settings.framework), settings.tensor_overlap, settings.data_overlap,
        settings.sequence_parallel, settings.network);
  }
};

struct PredictedStep {
  Ns step_ns = 0;
  Bytes peak_bytes = 0;
};

PredictedStep predicted_step(const Scenario& scenario) {
  const SimulateOptions options{.memory = {.samples = false},
                                .steady = SteadyState::skip,
                                .timeline = TimelineKept::none,
                                .figures = WantedFigures::of_rows};
  const auto result = simulate_scenario(scenario, options);
  if (!result) {
    ADD_FAILURE() << result.error().message;
    return {};
  }
  return {.step_ns = result->makespan_ns, .peak_bytes = highest_peak_bytes(*result)};
}

/// The search spaces of several models, devices and batches.
class Spaces {
 public:
  Spaces() {
    const std::vector<std::tuple<std::string, std::int64_t, std::int64_t>> models = {
        {"llama-3.1-70b.json", 8, 4096}, {"llama-3.1-405b.json", 16, 8192}, {"mixtral-8x22b.json", 8, 4096},
        {"qwen3-30b-a3b.json", 8, 4096}, {"gpt3-175b.json", 12, 2048},      {"deepseek-v3.json", 8, 4096},
        {"qwen3-8b.json", 8, 32768},
    };
    for (const auto& [model, layers, sequence] : models) {
      for (const std::string_view device : {"a100-sxm", "h100-sxm", "b200-sxm", "gb200"}) {
        for (const std::int32_t nodes : {1, 2, 4}) {
          const std::string scenario = fmt::format(
              "model: {{huggingface: {}, sequence: {}, layers: {}}}\ncluster: {{device: {}, nodes: {}}}\n",
              model, sequence, layers, device, nodes);
          TuneRequest request = tune_request(scenario, 16 * nodes);
          request.schedules = {"1f1b", "interleaved", "gpipe"};
          request.layer_splits = {{.rule = LayerSplit::Rule::even},
                                  {.rule = LayerSplit::Rule::ends_one_less}};
          if (auto space = tuning_space(request)) {
            spaces_.emplace_back(std::move(request), *std::move(space));
          }
        }
      }
    }
  }

  Drawn draw(std::mt19937_64& random) const {
    const auto& [request, space] = spaces_[random() % spaces_.size()];
    const Configuration& configuration = space[random() % space.size()];
    // Megatron-LM of 2021 has neither context parallelism nor all models, so it is not drawn.
    constexpr std::array frameworks = {Framework::megatron_te, Framework::torchtitan, Framework::llm_foundry};
    return {.request = &request,
            .configuration = configuration,
            .settings = {.framework = frameworks[random() % frameworks.size()],
                         .tensor_overlap = random() % 2 == 0,
                         .data_overlap = random() % 2 == 0,
                         .sequence_parallel = random() % 2 == 0,
                         .network = std::array{0.1, 0.5, 1.0}[random() % 3]}};
  }

 private:
  std::vector<std::pair<TuneRequest, std::vector<Configuration>>> spaces_;
};

/// Two scenarios. The second one cannot be worse than the first one.
struct Pair {
  Scenario worse;
  Scenario better;
};

struct Relation {
  std::string_view name;
  /// Returns the pair for a drawn configuration, or nothing if the relation does not apply to it.
  std::function<std::optional<Pair>(const Drawn&)> pair_of;
  bool in_time = true;
  bool in_memory = false;
};

/// Returns a relation that applies to every configuration. The function `change` makes a configuration
/// better.
Relation always_better(std::string_view name, void (*change)(Workload&)) {
  return {.name = name, .pair_of = [change](const Drawn& drawn) -> std::optional<Pair> {
            Pair pair{.worse = drawn.scenario(), .better = drawn.scenario()};
            change(work_of(pair.better));
            return pair;
          }};
}

std::int64_t layers_of_stage(const Drawn& drawn) {
  const Configuration& of = drawn.configuration;
  return std::ssize(drawn.work().model.layers) / (std::int64_t{of.stages} * of.virtual_stages);
}

std::vector<Relation> relations() {
  std::vector<Relation> all = {
      always_better("twice the bandwidth of the network",
                    [](Workload& work) { work.device.network_bytes_per_second *= 2; }),
      always_better("twice the bandwidth of NVLink",
                    [](Workload& work) { work.device.nvlink_bytes_per_second *= 2; }),
      always_better("half the latency",
                    [](Workload& work) {
                      work.device.link_latency_ns /= 2;
                      work.device.nvlink_step_ns /= 2;
                      work.device.network_step_ns /= 2;
                    }),
      always_better("faster products", [](Workload& work) { work.device.sustained *= 0.9; }),
      always_better("faster collectives", [](Workload& work) { work.device.collectives *= 0.9; }),
      always_better("twice the bandwidth of the memory",
                    [](Workload& work) { work.device.memory_bytes_per_second *= 2; }),
      always_better("gradients of 2 bytes in place of 4", [](Workload& work) { work.gradient_bytes = 2; }),
      always_better("a vocabulary of half the size", [](Workload& work) { work.model.vocabulary /= 2; }),
      always_better("a sequence of half the length", [](Workload& work) { work.sequence /= 2; }),
  };
  all.push_back({.name = "overlap of the exchange between copies", .pair_of = [](const Drawn& drawn) {
                   Pair pair{.worse = drawn.scenario(), .better = drawn.scenario()};
                   work_of(pair.worse).parallel.data_overlap = false;
                   work_of(pair.better).parallel.data_overlap = true;
                   return std::optional(std::move(pair));
                 }});
  all.push_back({.name = "overlap of tensor collectives", .pair_of = [](const Drawn& drawn) {
                   Pair pair{.worse = drawn.scenario(), .better = drawn.scenario()};
                   work_of(pair.worse).parallel.tensor_overlap = false;
                   work_of(pair.better).parallel.tensor_overlap = true;
                   return std::optional(std::move(pair));
                 }});
  all.push_back({.name = "no recomputation", .pair_of = [](const Drawn& drawn) {
                   Drawn none = drawn;
                   Drawn full = drawn;
                   none.configuration.recompute = LayerRecompute::none;
                   full.configuration.recompute = LayerRecompute::full;
                   return std::optional(Pair{.worse = full.scenario(), .better = none.scenario()});
                 }});
  all.push_back({.name = "full recomputation in memory",
                 .pair_of = [](const Drawn& drawn) -> std::optional<Pair> {
                   Drawn none = drawn;
                   Drawn full = drawn;
                   none.configuration.recompute = LayerRecompute::none;
                   full.configuration.recompute = LayerRecompute::full;
                   // A stage with one layer and one microbatch computes all of its activations again at the
                   // same time, so it saves nothing.
                   if (layers_of_stage(drawn) < 2) return std::nullopt;
                   return Pair{.worse = none.scenario(), .better = full.scenario()};
                 },
                 .in_time = false,
                 .in_memory = true});
  // Copies that also share gradients or weights hold those of a whole layer while the layer runs. This may be
  // more than they save.
  all.push_back({.name = "shared optimizer state in memory",
                 .pair_of = [](const Drawn& drawn) -> std::optional<Pair> {
                   if (drawn.configuration.data * drawn.configuration.context == 1) return std::nullopt;
                   Drawn none = drawn;
                   Drawn shared = drawn;
                   none.configuration.sharding = 0;
                   shared.configuration.sharding = 1;
                   return Pair{.worse = none.scenario(), .better = shared.scenario()};
                 },
                 .in_time = false,
                 .in_memory = true});
  all.push_back({.name = "fp8 in place of bf16", .pair_of = [](const Drawn& drawn) -> std::optional<Pair> {
                   if (drawn.work().device.fp8_flops_per_second <= 0) return std::nullopt;
                   Pair pair{.worse = drawn.scenario(), .better = drawn.scenario()};
                   work_of(pair.better).precision = GemmPrecision::fp8;
                   return pair;
                 }});
  all.push_back({.name = "twice the memory",
                 .pair_of =
                     [](const Drawn& drawn) {
                       Pair pair{.worse = drawn.scenario(), .better = drawn.scenario()};
                       work_of(pair.better).device.memory_bytes *= 2;
                       return std::optional(std::move(pair));
                     },
                 .in_memory = true});
  all.push_back({.name = "half the microbatches in time and memory",
                 .pair_of = [](const Drawn& drawn) -> std::optional<Pair> {
                   const Configuration& of = drawn.configuration;
                   // The smaller number must still fill the pipeline and whole groups of interleaved
                   // schedules.
                   if (of.microbatches % 2 != 0 || of.microbatches / 2 % of.stages != 0) return std::nullopt;
                   Pair pair{.worse = drawn.scenario(), .better = drawn.scenario()};
                   pair.better.batch.global_batch_size = *pair.better.batch.global_batch_size / 2;
                   return pair;
                 },
                 .in_memory = true});
  return all;
}

/// Returns a relation of models with experts whose groups exchange tokens.
Relation better_with_experts(std::string_view name, void (*change)(Parallel&)) {
  return {.name = name, .pair_of = [change](const Drawn& drawn) -> std::optional<Pair> {
            if (drawn.configuration.expert == 1) return std::nullopt;
            Pair pair{.worse = drawn.scenario(), .better = drawn.scenario()};
            change(work_of(pair.better).parallel);
            return pair;
          }};
}

/// Returns a relation of copies: to divide one more kind of state among them never shortens a step.
Relation less_sharding(std::string_view name, std::int32_t sharding) {
  return {.name = name, .pair_of = [sharding](const Drawn& drawn) -> std::optional<Pair> {
            if (drawn.configuration.data * drawn.configuration.context == 1) return std::nullopt;
            Drawn less = drawn;
            Drawn more = drawn;
            less.configuration.sharding = sharding;
            more.configuration.sharding = sharding + 1;
            return Pair{.worse = more.scenario(), .better = less.scenario()};
          }};
}

std::vector<Relation> relations_of_exchanges() {
  std::vector<Relation> all = {
      less_sharding("whole gradients", 1),
      less_sharding("whole weights", 2),
      better_with_experts("dispatch once to each node",
                          [](Parallel& parallel) { parallel.expert_dispatch = ExpertDispatch::deepep; }),
      better_with_experts("dispatch in 8 bits", [](Parallel& parallel) { parallel.fp8_dispatch = true; }),
      always_better("twice the devices in an NVLink domain",
                    [](Workload& work) { work.device.nvlink_devices *= 2; }),
  };
  // Each order is at most as good as the other one.
  for (const bool is_default_better : {false, true}) {
    all.push_back({.name = "either order inside one NVLink domain",
                   .pair_of = [is_default_better](const Drawn& drawn) -> std::optional<Pair> {
                     const DeviceType& device = drawn.work().device;
                     const std::int32_t devices = drawn.configuration.nodes * device.devices_per_node;
                     if (devices > device.nvlink_devices) return std::nullopt;
                     Pair pair{.worse = drawn.scenario(), .better = drawn.scenario()};
                     auto& better = work_of(pair.better).parallel.order;
                     auto& worse = work_of(pair.worse).parallel.order;
                     better =
                         is_default_better ? PlacementOrder::tp_cp_ep_dp_pp : PlacementOrder::tp_cp_ep_pp_dp;
                     worse =
                         is_default_better ? PlacementOrder::tp_cp_ep_pp_dp : PlacementOrder::tp_cp_ep_dp_pp;
                     return pair;
                   }});
  }
  return all;
}

/// Returns what is wrong with a pair, or an empty text.
std::string violation_of(const Relation& relation, const Drawn& drawn, const Pair& pair) {
  const PredictedStep worse = predicted_step(pair.worse);
  const PredictedStep better = predicted_step(pair.better);
  const bool is_longer = relation.in_time && static_cast<double>(better.step_ns) >
                                                 (1 + kRounding) * static_cast<double>(worse.step_ns);
  const bool is_larger = relation.in_memory && better.peak_bytes > worse.peak_bytes;
  if (!is_longer && !is_larger) return {};
  return fmt::format("{}: {}: {:.6f} s, {} bytes -> {:.6f} s, {} bytes", relation.name, drawn.name(),
                     1e-9 * static_cast<double>(worse.step_ns), worse.peak_bytes,
                     1e-9 * static_cast<double>(better.step_ns), better.peak_bytes);
}

TEST(Metamorphic, NoPairIsTheWrongWayRound) {
  const Spaces spaces;
  std::mt19937_64 random(20261127);
  std::vector<Relation> all = relations();
  std::ranges::move(relations_of_exchanges(), std::back_inserter(all));
  for (const Relation& relation : all) {
    std::size_t compared = 0;
    std::vector<std::string> violations;
    for (std::size_t drawn_count = 0; compared < pair_count() && drawn_count < 20 * pair_count();
         ++drawn_count) {
      const Drawn drawn = spaces.draw(random);
      const auto pair = relation.pair_of(drawn);
      if (!pair) continue;
      ++compared;
      if (auto text = violation_of(relation, drawn, *pair); !text.empty())
        violations.push_back(std::move(text));
    }
    EXPECT_EQ(compared, pair_count()) << relation.name;
    EXPECT_TRUE(violations.empty()) << violations.size() << " of " << compared << "\n"
                                    << fmt::format("{}", fmt::join(violations, "\n"));
  }
}

/// Twice the microbatches fill the same pipeline twice and share one reduction, so a sample takes no longer.
TEST(Metamorphic, MoreMicrobatchesNeverLowerTheEfficiency) {
  const Spaces spaces;
  std::mt19937_64 random(3);
  std::vector<std::string> violations;
  for (std::size_t compared = 0; compared < pair_count(); ++compared) {
    const Drawn drawn = spaces.draw(random);
    Scenario twice = drawn.scenario();
    twice.batch.global_batch_size = 2 * *twice.batch.global_batch_size;
    const Ns one_ns = predicted_step(drawn.scenario()).step_ns;
    const Ns two_ns = predicted_step(twice).step_ns;
    if (static_cast<double>(two_ns) > (1 + kRounding) * 2 * static_cast<double>(one_ns))
      violations.push_back(fmt::format("{}: {} ns -> {} ns", drawn.name(), one_ns, two_ns));
  }
  EXPECT_TRUE(violations.empty()) << violations.size() << "\n"
                                  << fmt::format("{}", fmt::join(violations, "\n"));
}

/// With twice the copies, nodes and batch, each device has the same work, and the exchange between copies is
/// larger. A step then takes as long or longer. If copies already exchange over the network, it takes half as
/// long again at most: the exchange sends (n - 1) / n of the gradients, and n goes from 2 at least to 4.
TEST(Metamorphic, TwiceTheCopiesTakeHardlyLonger) {
  const Spaces spaces;
  std::mt19937_64 random(7);
  std::vector<std::string> violations;
  std::size_t compared = 0;
  for (std::size_t drawn_count = 0; compared < 4 * pair_count() && drawn_count < 100 * pair_count();
       ++drawn_count) {
    const Drawn drawn = spaces.draw(random);
    const Configuration& of = drawn.configuration;
    // A few adjacent copies may exchange over NVLink, and twice as many may not.
    if (of.data < 2 || of.nodes < 2 || of.order != PlacementOrder::tp_cp_ep_pp_dp) continue;
    // Experts without copies have no exchange, but they would have one with twice the copies.
    if (of.tensor * of.context * of.data < 2 * of.expert) continue;
    TuneRequest twice = *drawn.request;
    twice.global_batch_size *= 2;
    twice.base.cluster.named->nodes *= 2;
    Drawn larger{.request = &twice, .configuration = of, .settings = drawn.settings};
    larger.configuration.nodes *= 2;
    larger.configuration.data *= 2;
    ++compared;
    const PredictedStep one = predicted_step(drawn.scenario());
    const PredictedStep two = predicted_step(larger.scenario());
    const double ratio = static_cast<double>(two.step_ns) / static_cast<double>(one.step_ns);
    // Copies share the optimizer state, so each has a smaller part to update. A step may therefore become
    // shorter. The upper limit leaves some room for latencies.
    if (ratio < 0.95 || ratio > 1.55 || two.peak_bytes > one.peak_bytes) {
      violations.push_back(fmt::format("{}: {:.3f} times as long, {} -> {} bytes", drawn.name(), ratio,
                                       one.peak_bytes, two.peak_bytes));
    }
  }
  EXPECT_GT(compared, pair_count());
  EXPECT_TRUE(violations.empty()) << violations.size() << " of " << compared << "\n"
                                  << fmt::format("{}", fmt::join(violations, "\n"));
}

}  // namespace
}  // namespace penstock

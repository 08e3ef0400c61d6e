#pragma once
// The experiment that a scenario file describes: model, cluster, schedule and training. load.hpp reads it,
// and experiment.hpp prepares it for an engine.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The optimizer, which decides the bytes of state per byte of fp32 weights: sgd 0, momentum 1, rmsprop 1,
/// adam 2.
enum class Optimizer : std::uint8_t { sgd, momentum, rmsprop, adam };
template <>
inline constexpr auto kEnumWords<Optimizer> =
    std::to_array<EnumWord<Optimizer>>({{Optimizer::sgd, "sgd"},
                                        {Optimizer::momentum, "momentum"},
                                        {Optimizer::rmsprop, "rmsprop"},
                                        {Optimizer::adam, "adam"}});

/// The precision of the model's values, and of the state that the optimizer stores for them.
enum class Precision : std::uint8_t {
  full,   // all values have one size, and the optimizer decides the state
  mixed,  // values have 2 bytes; the optimizer's copies of the weights and its state have 4 (ZeRO, SC'20,
          // section 3.1: with Adam 2 + 2 + 12 bytes a parameter)
  mixed_full_gradients,  // as mixed, but gradients have 4 bytes (Megatron-LM: 2 + 4 + 12)
};
template <>
inline constexpr auto kEnumWords<Precision> =
    std::to_array<EnumWord<Precision>>({{Precision::full, "full"},
                                        {Precision::mixed, "mixed"},
                                        {Precision::mixed_full_gradients, "mixed-full-gradients"}});

/// The failures of devices and their costs.
struct FailureRates {
  Ns device_mtbf_ns = 0;        ///< > 0: the mean time between two failures of one device
  Ns save_ns = 60'000'000'000;  ///< >= 0: the time of one checkpoint, during which no work is done
  /// The time (>= 0) from a failure until work continues from the last checkpoint.
  Ns restart_ns = 300'000'000'000;
  std::optional<Ns> interval_ns{};  ///< > 0: the work between two checkpoints; absent: the best interval

  friend bool operator==(const FailureRates&, const FailureRates&) = default;
};

/// A scenario with every part read, but with nothing generated, built or partitioned. Sweeps therefore change
/// K, M and the schedule in this value at little cost.
struct Scenario {
  std::string file;  ///< the file of the scenario; empty if flags made it
  Model model;
  std::optional<NetworkSpec> network;
  ClusterSpec cluster;  ///< default: free links and one unlimited device for each rank
  LaunchCost launch;    ///< the launch cost of the hosts; default: free
  /// The name of a schedule; empty if none is given. Not used if `program` is set.
  std::string schedule = "gpipe";
  Shape shape;  ///< shape.microbatches follows from `batch` during preparation
  /// True if shape.virtual_stages was stated, and use_default_chunks() did not choose it.
  bool states_chunks = false;
  std::optional<Program> program;  ///< the program, if the schedule was given as a program file
  ChannelOptions channels;
  Batch batch;
  Partition partition;
  Optimizer optimizer = Optimizer::sgd;
  Precision precision = Precision::full;
  /// True if each stage always stores copies of its weights for all versions that it ever needs.
  bool clones_versions = false;
  std::optional<FailureRates> failures{};
  std::vector<std::string> notes;  ///< the assumptions that were made during reading
};

/// Sets the number of chunks a rank to the schedule's default, if the scenario does not state it. The caller
/// must call it after a change of the schedule's name.
void use_default_chunks(Scenario& scenario);

}  // namespace penstock

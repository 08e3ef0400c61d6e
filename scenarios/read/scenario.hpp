#pragma once
// The experiment that a scenario file describes: model + cluster + schedule + training set-up. Read by
// load.hpp, turned into what an engine takes by experiment.hpp.

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

/// Which optimizer's state is held beside the weights (bytes per byte of fp32 weights: sgd 0, momentum 1,
/// rmsprop 1, adam 2).
enum class Optimizer : std::uint8_t { sgd, momentum, rmsprop, adam };
template <>
inline constexpr auto kEnumWords<Optimizer> =
    std::to_array<EnumWord<Optimizer>>({{Optimizer::sgd, "sgd"},
                                        {Optimizer::momentum, "momentum"},
                                        {Optimizer::rmsprop, "rmsprop"},
                                        {Optimizer::adam, "adam"}});

/// What the model's bytes hold, and what the optimizer holds beside them.
enum class Precision : std::uint8_t {
  full,   // all values alike; state by the optimizer
  mixed,  // values of 2 bytes; the optimizer has copies of the weights, and its state, in 4 bytes (ZeRO,
          // SC'20, section 3.1: with Adam 2 + 2 + 12 bytes a parameter)
  mixed_full_gradients,  // the same with gradients in 4 bytes (Megatron-LM: 2 + 4 + 12)
};
template <>
inline constexpr auto kEnumWords<Precision> =
    std::to_array<EnumWord<Precision>>({{Precision::full, "full"},
                                        {Precision::mixed, "mixed"},
                                        {Precision::mixed_full_gradients, "mixed-full-gradients"}});

/// How devices fail and what that costs.
struct FailureRates {
  Ns device_mtbf_ns = 0;            ///< > 0: mean time between two failures of one device
  Ns save_ns = 60'000'000'000;      ///< >= 0: one checkpoint, during which no work is done
  Ns restart_ns = 300'000'000'000;  ///< >= 0: from a failure until work goes on behind the last checkpoint
  std::optional<Ns> interval_ns{};  ///< > 0: work between two checkpoints; absent: the best

  friend bool operator==(const FailureRates&, const FailureRates&) = default;
};

/// A scenario with every part resolved, except that nothing is generated, built or partitioned yet:
/// overrides of K, M and the schedule (sweeps) are cheap edits of this value.
struct Scenario {
  std::string file;  ///< where it was read from; empty: made by flags
  Model model;
  std::optional<NetworkSpec> network;
  ClusterSpec cluster;             ///< default: free links, one unlimited device a rank
  LaunchCost launch;               ///< of the hosts; default: free
  std::string schedule = "gpipe";  ///< a name of the table; unused when `program` is set; empty: not given
  Shape shape;                     ///< shape.microbatches follows from `batch` when it is prepared
  bool states_chunks = false;  ///< shape.virtual_stages was given, and is not what use_default_chunks() chose
  std::optional<Program> program;  ///< the schedule was given as a program file
  ChannelOptions channels;
  Batch batch;
  Partition partition;
  Optimizer optimizer = Optimizer::sgd;
  Precision precision = Precision::full;
  bool clones_versions =
      false;  ///< as many versions as a stage ever needs stand beside its weights all the time
  std::optional<FailureRates> failures{};
  std::vector<std::string> notes;  ///< assumptions that were made while reading
};

/// Gives the schedule the chunks a rank that it has where none are stated. Call it when its name has changed.
void use_default_chunks(Scenario& scenario);

}  // namespace penstock

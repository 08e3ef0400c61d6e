#pragma once
// Finds the best configurations of a space. Times and peaks come from the simulator's engine and memory
// rules.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "sim/choose/configuration.hpp"

namespace penstock {

/// A configuration with the figures that simulate() gives for it.
struct TunedConfiguration {
  Configuration configuration;
  std::vector<std::int64_t> layers{};  ///< number of layers of each stage
  Ns step_ns = 0;
  Bytes peak_bytes = 0;  ///< peak of the fullest device
  bool fits = true;      ///< true if the peak is within a device's usable memory
  /// True if the schedule searches its order for the stages' costs, but the figures are those of the order
  /// for equal stages. simulate() may then find a better order.
  bool constructed = false;
  double tokens_per_second_per_device = 0;
  double mfu = 0;
};

/// A value of a choice, with the best configuration that has it.
struct ChoiceCost {
  std::string_view choice;  ///< name of a member of Configuration: "tensor", "schedule", ...
  std::string value;
  std::optional<std::size_t> best;  ///< best one that fits, as an index into TuneReport::candidates
  /// Index into TuneReport::candidates of a faster configuration that does not fit; absent if there is none.
  std::optional<std::size_t> faster;
};

struct TuneReport {
  std::size_t space = 0;             ///< number of configurations
  std::size_t evaluated = 0;         ///< number of configurations that the engine timed
  std::size_t pruned_by_memory = 0;  ///< configurations that were not timed because of their memory bounds
  std::size_t pruned_by_time = 0;    ///< configurations that were not timed because of their time bounds
  std::optional<Bytes> capacity;     ///< memory of a device; absent if it is unlimited
  std::optional<Bytes> usable;       ///< part of `capacity` that a configuration may use
  std::vector<LeftOut> left_out;     ///< configurations that were not timed because they cannot run
  /// The listed configurations: the first `top` different ones, the front, and those to which `choices`
  /// refers. Configurations with the same layers and figures by different rules are listed once. The best is
  /// first: configurations that fit, then by tokens per second and device, then by memory, then by their
  /// members. The first candidate is the same for every `top`.
  std::vector<TunedConfiguration> candidates;
  /// Indices of candidates such that no other candidate is better in both time and memory. The fastest is
  /// first.
  std::vector<std::size_t> front;
  std::vector<ChoiceCost> choices;
  std::vector<std::string> notes;  ///< assumptions of the prediction of the best candidate
};

/// A function that the search calls with the number of configurations that are decided and of all
/// configurations.
using TuneProgress = std::function<void(std::size_t done, std::size_t all)>;

struct TuneOptions {
  std::size_t top = 10;  ///< number of different configurations that are always listed, >= 1
  /// Number of configurations that are refined. If layers are balanced, they are moved between stages while
  /// that makes the step faster. If the schedule searches its order, the order is searched for the true
  /// costs. This is also done for others whose bounds are below the best. Configurations with equal
  /// figures that differ only in the rule of the layer split count as one.
  std::size_t refined = 10;
  bool prune = true;  ///< false: every configuration is timed, with the same answer
  TuneProgress progress{};
  /// If it returns true, the search times no further configuration and reports the results so far. It may be
  /// called from any thread.
  std::function<bool()> stopped{};
};

/// Searches the space. A step is one pass, whatever training.iterations says; a note says so. A stopped
/// search reports the best configurations so far, with a note. Errors: those of tuning_space() and
/// space_refusal(); channels with eager messages, because their programs depend on sizes; no configuration
/// can run (ErrorKind::check_failed if all hang); the search was stopped before it had a result.
tl::expected<TuneReport, UserError> tune(const TuneRequest& request, const TuneOptions& options);

/// Returns the configuration with the given figures, and those that follow from them.
TunedConfiguration tuned_configuration(const TuneRequest& request, const Configuration& configuration,
                                       Ns step_ns, Bytes peak_bytes);

}  // namespace penstock

#pragma once
// Finds the best configurations of a space. Their times and peaks are those of the simulator.

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

/// A configuration with the figures of simulate().
struct TunedConfiguration {
  Configuration configuration;
  std::vector<std::int64_t> layers{};  ///< number of layers of each stage
  Ns step_ns = 0;
  Bytes peak_bytes = 0;  ///< peak of the fullest device
  bool fits = true;      ///< true if the peak is within a device's usable memory
  /// True if the schedule searches its order by costs, but the figures are those of the order for equal
  /// stages. simulate() may then find a better order.
  bool constructed = false;
  double tokens_per_second_per_device = 0;
  double mfu = 0;
};

/// A value of a choice, and the best configuration with this value.
struct ChoiceCost {
  std::string_view choice;  ///< a name in kChoices, such as "tensor" or "schedule"
  std::string value;
  std::optional<std::size_t> best;  ///< the best one that fits, as an index into TuneReport::candidates
  /// A faster configuration that does not fit, as an index into TuneReport::candidates. Absent if there is
  /// none.
  std::optional<std::size_t> faster;
};

struct TuneReport {
  std::size_t space = 0;             ///< number of configurations
  std::size_t evaluated = 0;         ///< number of configurations for which the engine has computed the time
  std::size_t pruned_by_memory = 0;  ///< number of configurations that memory bounds have excluded
  std::size_t pruned_by_time = 0;    ///< number of configurations that time bounds have excluded
  std::optional<Bytes> capacity;     ///< memory of a device; absent if it is unlimited
  std::optional<Bytes> usable;       ///< memory that a configuration may use; absent if it is unlimited
  std::vector<LeftOut> left_out;     ///< configurations that cannot run
  /// The listed configurations: the first `top` different ones, the front, and those to which `choices`
  /// refers. Configurations with the same layers and figures by different rules are listed once. The best is
  /// first: configurations that fit, then by tokens per second and device, then by memory, then by their
  /// members. The first candidate is the same for every `top`.
  std::vector<TunedConfiguration> candidates;
  /// The Pareto front of time and memory: indices of the candidates to which no other is superior in both.
  /// The fastest is first.
  std::vector<std::size_t> front;
  std::vector<ChoiceCost> choices;
  std::vector<std::string> notes;  ///< assumptions in the prediction of the best candidate
};

/// A function that the search calls with the number of decided configurations and of all configurations.
using TuneProgress = std::function<void(std::size_t done, std::size_t all)>;

struct TuneOptions {
  std::size_t top = 10;  ///< number of different configurations that are always listed, >= 1
  /// Number of configurations that are refined. If layers are balanced, they are moved between stages while
  /// that makes the step faster. If the schedule searches its order, the order is searched for the true
  /// costs. This is also done for others whose bounds are below the best. Configurations with equal
  /// figures that differ only in the rule of the layer split count as one.
  std::size_t refined = 10;
  bool prune = true;  ///< false: the times of all configurations are computed; the answer is the same
  TuneProgress progress{};
  /// If it returns true, the search ends and reports the results so far. It may be called from any thread.
  std::function<bool()> stopped{};
};

/// Searches the space. A step is one iteration; if training.iterations is larger, a note says so. If the
/// search is stopped, it reports the best configurations so far, with a note. Error: tuning_space() or
/// space_refusal() has an error; messages are eager, so that programs depend on sizes; no configuration can
/// run (ErrorKind::check_failed if all hang); the search was stopped before it had a result.
tl::expected<TuneReport, UserError> tune(const TuneRequest& request, const TuneOptions& options);

/// Returns the configuration with these figures, and with the rates that follow from them.
TunedConfiguration tuned_configuration(const TuneRequest& request, const Configuration& configuration,
                                       Ns step_ns, Bytes peak_bytes);

}  // namespace penstock

#pragma once
// Finds the best configurations of a space, with times and peaks from the simulator's engine and memory
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
  bool fits = true;      ///< the peak is within a device's usable memory
  /// True if the schedule searches an order for the stages' costs but these figures are those of the order
  /// for equal stages. simulate() may find a better order.
  bool constructed = false;
  double tokens_per_second_per_device = 0;
  double mfu = 0;
};

/// A value of a choice, and the best configuration with this value.
struct ChoiceCost {
  std::string_view choice;  ///< a member of Configuration: "tensor", "schedule", ...
  std::string value;
  std::optional<std::size_t> best;  ///< the best one that fits, as an index into TuneReport::candidates
  /// A faster one that does not fit, as an index into TuneReport::candidates.
  std::optional<std::size_t> faster;
};

struct TuneReport {
  std::size_t space = 0;             ///< number of configurations
  std::size_t evaluated = 0;         ///< number of configurations that the engine timed
  std::size_t pruned_by_memory = 0;  ///< cannot fit, and others are faster or smaller
  std::size_t pruned_by_time = 0;    ///< have a lower bound above the time of others
  std::optional<Bytes> capacity;     ///< memory of a device; absent: unlimited
  std::optional<Bytes> usable;       ///< part of `capacity` that a configuration may use
  std::vector<LeftOut> left_out;     ///< part of the space that was not timed because it cannot run
  /// The best first: those that fit before the others, then by tokens per second and device, then by memory,
  /// then by their tuple. The list has three parts: the first `top` that differ in more than how they
  /// recompute (with those that do not), the front, and what `choices` refers to. The first candidate is the
  /// same for every `top`.
  std::vector<TunedConfiguration> candidates;
  /// Indices of candidates that no other beats in time and memory, fastest first.
  std::vector<std::size_t> front;
  std::vector<ChoiceCost> choices;
  std::vector<std::string> notes;  ///< assumptions of the prediction of the best one
};

/// A function that is called while a search runs, with the number of configurations that are decided and of
/// all.
using TuneProgress = std::function<void(std::size_t done, std::size_t all)>;

struct TuneOptions {
  std::size_t top = 10;  ///< number of different configurations that are listed in any case, >= 1
  /// Number of configurations that are refined. Of the first ones, balanced layers are moved between stages
  /// while that makes them faster. If their schedule searches its order, the order is searched for the true
  /// costs. The latter is also done for others that search and whose bounds are below the best.
  /// Configurations without a difference that has an effect count once.
  std::size_t refined = 10;
  bool prune = true;  ///< false: every configuration is timed, with the same answer
  TuneProgress progress{};
  /// When it returns true, no further configuration is timed, and the search reports what it knows. It may be
  /// called from any thread.
  std::function<bool()> stopped{};
};

/// Searches the space. A step is one pass, whatever training.iterations says; a note says so. A search that
/// was stopped reports the best configurations that it has found, and a note says so. Errors: those of
/// tuning_space() and space_refusal(); channels with eager messages, because their programs depend on sizes;
/// no configuration can run
/// (ErrorKind::check_failed if every one hangs); the search was stopped before it had a result.
tl::expected<TuneReport, UserError> tune(const TuneRequest& request, const TuneOptions& options);

/// Returns the configuration with the figures that simulate() gives for it.
TunedConfiguration tuned_configuration(const TuneRequest& request, const Configuration& configuration,
                                       Ns step_ns, Bytes peak_bytes);

}  // namespace penstock

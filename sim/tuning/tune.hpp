#pragma once
// The best configurations of a space, timed and measured by the simulator's own engine and memory account.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/left_out.hpp"

namespace penstock {

/// A configuration with what simulate() says of it.
struct TunedConfiguration {
  Configuration configuration;
  std::vector<std::int64_t> layers{};  ///< by stage
  Ns step_ns = 0;
  Bytes peak_bytes = 0;  ///< of the fullest device
  bool fits = true;      ///< in what is usable of a device's memory
  /// Its schedule searches an order for the stages' costs, and these figures are those of the order for equal
  /// stages: simulate() may find a better one.
  bool constructed = false;
  double tokens_per_second_per_device = 0;
  double mfu = 0;
};

/// A choice, and the best that it leaves.
struct ChoiceCost {
  std::string_view choice;  ///< "tensor", "schedule", ...: a member of Configuration
  std::string value;
  std::optional<std::size_t> best;  ///< of those that fit; index into TuneReport::candidates
  /// One that is faster than that and does not fit; index as above.
  std::optional<std::size_t> faster;
};

struct TuneReport {
  std::size_t space = 0;             ///< configurations
  std::size_t evaluated = 0;         ///< timed by the engine
  std::size_t pruned_by_memory = 0;  ///< cannot fit, and others are faster or smaller
  std::size_t pruned_by_time = 0;    ///< their lower bound is above what others take
  std::optional<Bytes> capacity;     ///< of a device; absent: unlimited
  std::optional<Bytes> usable;       ///< of it, what a configuration that fits may use
  std::vector<LeftOut> left_out;     ///< part of the space, and not timed: they cannot run
  /// The best first: those that fit before the others, then by tokens per second and device, then by memory,
  /// then by their tuple. The first `top` that differ in more than how they recompute, with those that do
  /// not; the front; and what `choices` names. The first one is the same for every `top`.
  std::vector<TunedConfiguration> candidates;
  std::vector<std::size_t> front;  ///< that none beats in time and memory; indices, fastest first
  std::vector<ChoiceCost> choices;
  std::vector<std::string> notes;  ///< what the prediction of the best one assumes
};

/// Asked while a search runs: how many of how many configurations are settled.
using TuneProgress = std::function<void(std::size_t done, std::size_t all)>;

struct TuneOptions {
  std::size_t top = 10;  ///< >= 1 different configurations that are listed whatever they are
  /// How many of the first have their balanced layers moved between stages while that makes them faster; how
  /// many of the first, and of those whose schedules search their order and whose bounds are below the best,
  /// have that searched for the true costs. What differs in nothing that has an effect counts once.
  std::size_t refined = 10;
  bool prune = true;  ///< otherwise every configuration is timed; the answer is the same
  TuneProgress progress{};
  /// True: settle no further configuration, and report what is known; asked from any thread.
  std::function<bool()> stopped{};
};

/// Why a search has no answer.
struct TuneError {
  std::string message;
  bool invalid = false;  ///< every configuration hangs (exit 1); otherwise bad input (exit 2)
};

/// A step is one pass, whatever training.iterations the scenario has; a note says so. A search that was
/// stopped reports the best of what it had settled, and a note says so. Errors: those of tuning_space() and
/// space_refusal(); channels with eager messages, whose programs depend on sizes; nothing that can run;
/// stopped before anything was settled.
tl::expected<TuneReport, TuneError> tune(const TuneRequest& request, const TuneOptions& options);

/// The configuration with figures that simulate() has of it.
TunedConfiguration tuned_configuration(const TuneRequest& request, const Configuration& configuration,
                                       Ns step_ns, Bytes peak_bytes);

}  // namespace penstock

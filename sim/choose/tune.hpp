#pragma once
// Finds the best configurations of a space. Their times and peaks are those that the simulator computes.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "sim/choose/configuration.hpp"

namespace penstock {

/// A configuration with its figures. They are those of simulate(), unless `estimated` is true.
struct TunedConfiguration {
  Configuration configuration;
  std::vector<std::int64_t> layers{};  ///< number of layers of each stage
  Ns step_ns = 0;
  Bytes peak_bytes = 0;  ///< peak of the fullest device: the one with the least free memory
  /// Memory of that device that a configuration may use; absent if it is unlimited.
  std::optional<Bytes> usable_bytes{};
  bool fits = true;  ///< true if the peak is within that device's usable memory
  /// True if the schedule searches for its order by costs, but the figures are those of the order for
  /// stages of equal cost. simulate() may then find a better order.
  bool constructed = false;
  /// True if simulate() may find another time. Only the first configurations of the answer get the layers and
  /// the order that simulate() finds. The others have layers that are balanced by a bound, or constructed
  /// orders.
  bool estimated = false;
  double tokens_per_second_per_device = 0;
  double mfu = 0;
};

/// A value of a choice, and the best configuration with this value.
struct ChoiceCost {
  std::string_view choice;  ///< a name in kChoices, such as "tensor" or "schedule"
  std::string value;
  std::optional<std::size_t> best;  ///< the best one that fits, as an index into TuneReport::candidates
  /// The index in TuneReport::candidates of a configuration that is faster than `best` but does not fit in
  /// memory. Absent if there is none.
  std::optional<std::size_t> faster;
};

struct TuneReport {
  std::size_t space = 0;             ///< number of configurations
  std::size_t evaluated = 0;         ///< number of configurations for which the engine has computed the time
  std::size_t pruned_by_memory = 0;  ///< number of configurations that memory bounds have excluded
  std::size_t pruned_by_time = 0;    ///< number of configurations that time bounds have excluded
  /// Memory of a device. Absent if it is unlimited, or if there are several kinds of devices.
  std::optional<Bytes> capacity;
  /// Memory of a device that a configuration may use. Absent if it is unlimited, or if there are several
  /// kinds of devices, each of which has its own limit (TunedConfiguration::usable_bytes).
  std::optional<Bytes> usable;
  std::vector<LeftOut> left_out;  ///< configurations that cannot run
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

/// A function that the search calls to report progress. `done` configurations out of `all` are decided.
using TuneProgress = std::function<void(std::size_t done, std::size_t all)>;

struct TuneOptions {
  std::size_t top = 10;  ///< number of different configurations that are always listed, >= 1
  /// The number of configurations that the search refines. Refining a balanced split moves layers between
  /// stages as long as the step becomes faster. If the schedule searches for its order by costs, refining
  /// searches the order for the true costs. Other configurations are also refined if their bounds are below
  /// the best. Configurations with equal figures that differ only in the rule of the layer split count as
  /// one.
  std::size_t refined = 10;
  bool prune = true;  ///< false if the times of all configurations must be computed; the answer is the same
  TuneProgress progress{};
  /// A function that returns true to stop the search, which then reports its results so far. The search may
  /// call it from any thread.
  std::function<bool()> stopped{};
};

/// Searches the space of the request for the best configurations. A step is one iteration; if
/// training.iterations is larger, a note says so. If the search is stopped, it reports the best
/// configurations so far, with a note. Returns the errors of tuning_space() and space_refusal(). Also returns
/// an error if messages are eager, because programs would depend on their sizes. Also returns an error if no
/// configuration can run (ErrorKind::check_failed if all hang), or if the search was stopped before it had a
/// result.
tl::expected<TuneReport, UserError> tune(const TuneRequest& request, const TuneOptions& options);

/// The peak of the device with the least free memory, and the memory of this device that may be used.
struct FullestDevice {
  Bytes peak_bytes = 0;
  std::optional<Bytes> usable_bytes{};  ///< absent if it is unlimited
};
/// Returns the device of a rank with the peak `peak_bytes`. Requires a rank of the configuration.
FullestDevice device_with_peak(const TuneRequest& request, const Configuration& configuration,
                               std::int64_t rank, Bytes peak_bytes);

/// Returns the configuration with its step time and peak memory, and with the rates that follow from them.
TunedConfiguration tuned_configuration(const TuneRequest& request, const Configuration& configuration,
                                       Ns step_ns, const FullestDevice& fullest);

// A function that runs work on another thread. The caller can stop waiting before the work ends.

/// Runs `work` and returns its result. Returns nothing if `stopped` returns true and the work does not end
/// soon afterwards. The work then continues on its own thread, so it must own all its data. Throws the
/// exceptions of `work`. If `stopped` is empty, `work` runs on the calling thread.
template <typename Work>
std::optional<std::invoke_result_t<Work>> done_unless(const std::function<bool()>& stopped, Work work) {
  constexpr std::chrono::milliseconds kLook{20};
  // The time for which the function still waits after a stop. If the work checks `stopped` itself, it usually
  // ends within this time, and its result is used.
  constexpr std::chrono::milliseconds kPatience{150};
  if (!stopped) return work();
  std::packaged_task<std::invoke_result_t<Work>()> task(std::move(work));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  while (result.wait_for(kLook) != std::future_status::ready) {
    if (stopped() && result.wait_for(kPatience) != std::future_status::ready) return std::nullopt;
  }
  return result.get();
}

}  // namespace penstock

#pragma once
// The answer of `penstock check` for one scenario or program: whether it is valid, and where it hangs.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/commands/smallest_failure.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/weight_versions.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// The channel check under one model, with transfers issued ahead and with blocking ones.
struct ModelVerdict {
  ChannelModel model = ChannelModel::directed;
  std::optional<Hang> ahead;
  std::optional<Hang> blocking;
};

/// The findings. Of an invalid program only `name`, `error` and `channels` are filled in.
struct ChannelVerdict {
  std::string name;
  std::string error;        ///< empty: the program is valid
  ChannelOptions channels;  ///< the chosen ones
  std::string schedule;
  std::int32_t ranks = 0;
  std::int32_t stages = 0;
  std::int32_t microbatches = 0;
  std::string digest;
  std::array<ModelVerdict, kChannelModels.size()> models{};
  WeightVersions versions{};
  std::optional<SmallestFailure> smallest{};  ///< present if it was asked for and found

  bool valid() const { return error.empty(); }
  /// Returns the hang or crossing under `model` and the chosen blocking; nothing if it is safe there.
  const std::optional<Hang>& hang(ChannelModel model) const;
  /// Returns whether the program is valid and safe under the chosen channels.
  bool passed() const { return valid() && !hang(channels.model); }
  /// Returns the first model that is safe with the chosen blocking.
  std::optional<ChannelModel> weakest_safe() const;
};

/// Checks under all models, with the experiment's capacity and eager size.
ChannelVerdict check_channels(const Experiment& experiment);

/// Options for what is printed after the verdicts.
struct VerdictOptions {
  bool versions = false;  ///< print the weight versions of every stage and microbatch, even if none is stale
  bool smallest = false;  ///< print verdict.smallest, or say that there is none
};

/// Returns a text for the terminal: a table of the verdicts, then the cycle of the chosen model or of the
/// first one that hangs. The weight versions follow if a program has several, and then what the options ask
/// for.
std::string to_text(const ChannelVerdict& verdict, const VerdictOptions& options = {});
/// Returns {schema_version, kind, valid, hangs, crosses, cycle, crossed, weakest_safe_channel,
/// weight_versions, error, ...}. `cycle` and `crossed` are those of the chosen model, empty if it neither
/// hangs nor crosses.
std::string to_json(const ChannelVerdict& verdict, const VerdictOptions& options = {});

}  // namespace penstock

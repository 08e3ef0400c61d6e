#pragma once
// The answer of `penstock check` for one scenario or program: is it valid, and where would it hang.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "scenarios/experiment.hpp"
#include "schedules/channel.hpp"
#include "schedules/channel_check.hpp"

namespace penstock {

/// The channel check under one model, with transfers issued ahead and with blocking ones.
struct ModelVerdict {
  ChannelModel model = ChannelModel::directed;
  std::optional<Hang> ahead;
  std::optional<Hang> blocking;
};

/// What was found. Of an invalid program only `name`, `error` and `channels` mean something.
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

  bool valid() const { return error.empty(); }
  /// Under `model` and the chosen blocking.
  const std::optional<Hang>& hang(ChannelModel model) const;
  /// Valid, and safe under the chosen channels.
  bool passed() const { return valid() && !hang(channels.model); }
  /// The first model that does not hang with the chosen blocking.
  std::optional<ChannelModel> weakest_safe() const;
};

/// Checks under all models; capacity and eager size are the experiment's.
ChannelVerdict check_channels(const Experiment& experiment);

/// For people: the verdicts as a table, then the cycle of the chosen model, or of the first one that hangs.
std::string to_text(const ChannelVerdict& verdict);
/// {schema_version, kind, valid, hangs, cycle, weakest_safe_channel, error, ...}; `cycle` is that of the
/// chosen model, empty when it does not hang.
std::string to_json(const ChannelVerdict& verdict);

}  // namespace penstock

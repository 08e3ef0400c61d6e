#pragma once
// Computes the answer of `penstock check` for one scenario or program. It says whether the program is
// valid and under which channel models it hangs. With --shrink it also contains the smallest program that
// fails in the same way.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

struct SmallestFailure {
  Program program;
  std::string message;                    ///< the error message of validate(), lower() or find_hang()
  std::vector<WaitFor> cycle;             ///< the cycle of waits, if the program hangs
  std::optional<Shape> shape;             ///< the smallest failing shape, if a schedule generated the program
  std::vector<CrossedMessage> crossed{};  ///< the messages that cross
};

/// Returns the smallest program that fails in the same way as the scenario's program. Returns nothing if
/// the scenario's program is valid and safe under its channels. Also returns nothing if the program is
/// invalid and a schedule generated it.
std::optional<SmallestFailure> smallest_failure(const Scenario& scenario);

/// Returns a text for the terminal: the size of the smallest failing program, its actions, and the reason
/// why it fails.
std::string to_text(const SmallestFailure& failure);

/// The result of the channel check under one channel model. It has the hang in three modes: transfers that
/// are issued ahead, that are blocking, and that are batched. `batched` is set only if the user chose
/// batched transfers.
struct ModelVerdict {
  ChannelModel model = ChannelModel::directed;
  std::optional<Hang> ahead;
  std::optional<Hang> blocking;
  std::optional<Hang> batched;
};

/// The findings about one program. If the program is invalid, only `name`, `error` and `channels` are set.
struct ChannelVerdict {
  std::string name;
  std::string error;        ///< the reason why the program is invalid; empty if it is valid
  ChannelOptions channels;  ///< the channel options that the user chose
  std::string schedule;
  std::int32_t ranks = 0;
  std::int32_t stages = 0;
  std::int32_t microbatches = 0;
  std::string digest;
  std::array<ModelVerdict, kChannelModels.size()> models{};
  WeightVersions versions{};
  std::optional<SmallestFailure> smallest{};  ///< the smallest failing program, if it was requested and found

  bool valid() const { return error.empty(); }
  /// Returns the hang or the crossed messages of the program under `model`, with the blocking mode that the
  /// user chose. Returns nothing if the program is safe under this model.
  const std::optional<Hang>& hang(ChannelModel model) const;
  /// Returns true if the program is valid, and safe under the channel options that the user chose.
  bool passed() const { return valid() && !hang(channels.model); }
  /// Returns the weakest channel model under which the program is safe, with the blocking mode that the
  /// user chose. Returns nothing if there is none.
  std::optional<ChannelModel> weakest_safe() const;
};

/// Checks the program under all channel models, with the capacity and the eager size of the experiment.
ChannelVerdict check_channels(const Experiment& experiment);
/// Prepares the scenario and checks its program. If the program is invalid, the verdict says so. If the
/// scenario cannot be prepared for another reason, returns an error.
tl::expected<ChannelVerdict, UserError> verdict_of(const Scenario& scenario);

/// The options for the parts that are printed after the verdicts.
struct VerdictOptions {
  /// True to print the weight versions of every stage and microbatch, even if none is stale.
  bool versions = false;
  bool smallest = false;  ///< True to print verdict.smallest, or a sentence that there is no smaller program.
};

/// Returns a text for the terminal. It has a table of the verdicts and the cycle of waits in the hang. The
/// hang is that of the chosen model, or of the first model that hangs. If the program has several weight
/// versions, they are listed next. The parts that `options` selects come last.
std::string to_text(const ChannelVerdict& verdict, const VerdictOptions& options = {});
/// Returns a JSON object: {schema_version, kind, valid, hangs, crosses, cycle, crossed, weakest_safe_channel,
/// weight_versions, error, ...}. `cycle` and `crossed` are for the chosen model. They are empty if the
/// program neither hangs nor has crossed messages under it.
std::string to_json(const ChannelVerdict& verdict, const VerdictOptions& options = {});

}  // namespace penstock

#pragma once
// Finds out whether messages ever wait for their queues. If they never do, passes over a tape need not follow
// the queues.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// Collects the senders of messages while a tape is written.
class QueueSenders {
 public:
  /// Records a message that the sending rank's clock sends, in an instruction of this duration class.
  void add(std::uint32_t duration) {
    if (duration >= sends_.size()) sends_.resize(duration + 1, false);
    sends_[duration] = true;
  }
  /// Records a message with any other sender.
  void add_other() { only_clocks_ = false; }

  /// Returns the value of Tape::senders for `tape`. Requires that the links of the tape are complete. Takes
  /// O(classes).
  std::optional<std::vector<std::uint32_t>> of(const Tape& tape) const;

 private:
  bool only_clocks_ = true;
  std::vector<bool> sends_;  // index: duration class
};

/// Returns the queues that all passes over the tape must follow, whether they start at 0 or continue.
/// `durations` are by class; if they are empty, instructions may take any time. Takes O(classes).
QueuesFollowed queues_followed(const Tape& tape, std::span<const PricedLink> links,
                               std::span<const Ns> durations);

}  // namespace penstock

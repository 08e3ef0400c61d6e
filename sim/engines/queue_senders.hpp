#pragma once
// Whether messages ever wait for their queues: where not, passes over a tape need not follow these.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// Who sends the messages of a tape that is being written.
class QueueSenders {
 public:
  /// The sending rank's clock, by an instruction of that duration class.
  void add(std::uint32_t duration) {
    if (duration >= sends_.size()) sends_.resize(duration + 1, false);
    sends_[duration] = true;
  }
  /// Something else.
  void add_other() { only_clocks_ = false; }

  /// What Tape::senders has for the tape, whose links are complete. O(classes).
  std::optional<std::vector<std::uint32_t>> of(const Tape& tape) const;

 private:
  bool only_clocks_ = true;
  std::vector<bool> sends_;  // by duration class
};

/// What passes over the tape have to follow, the first one and any that goes on from it. `durations` by
/// class; without any, instructions may take any time. O(classes).
QueuesFollowed queues_followed(const Tape& tape, std::span<const PricedLink> links,
                               std::span<const Ns> durations);

}  // namespace penstock

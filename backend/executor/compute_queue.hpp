#pragma once
// The seam between the executor and hardware that runs a rank's compute actions behind its thread.

#include <cstdint>

#include "backend/executor/transport.hpp"

namespace penstock {

/// A queue in which the compute actions of one rank run one after the other, while the rank's thread goes on.
/// Actions are numbered from 0 in the order in which they are given. All calls come from the rank's one
/// thread but time_of(); failures are exceptions.
class ComputeQueue {
 public:
  ComputeQueue() = default;
  ComputeQueue(const ComputeQueue&) = delete;
  ComputeQueue& operator=(const ComputeQueue&) = delete;
  virtual ~ComputeQueue() = default;

  /// The most actions that may be given and not have ended.
  virtual std::int32_t most_ahead() const = 0;
  /// What the thread calls between these two is the action. Never wait.
  virtual void begin(std::int32_t number) = 0;
  virtual void end(std::int32_t number) = 0;
  /// Of an action that is among the last most_ahead(). Never wait.
  virtual bool has_begun(std::int32_t number) const = 0;
  virtual bool has_ended(std::int32_t number) const = 0;
  /// On the clock of the run. Requires that has_ended() has said so.
  virtual MessageTime time_of(std::int32_t number) const = 0;
};

}  // namespace penstock

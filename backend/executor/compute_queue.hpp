#pragma once
// The interface between the executor and hardware that runs a rank's compute actions asynchronously, such as
// a CUDA stream.

#include <cstdint>

#include "backend/executor/transport.hpp"

namespace penstock {

/// A queue in which the compute actions of one rank run one after the other, while the rank's thread goes on.
/// Actions are numbered from 0 in the order in which they are submitted. All calls except time_of() come from
/// the rank's thread. Failures are exceptions.
class ComputeQueue {
 public:
  ComputeQueue() = default;
  ComputeQueue(const ComputeQueue&) = delete;
  ComputeQueue& operator=(const ComputeQueue&) = delete;
  virtual ~ComputeQueue() = default;

  /// Returns how many submitted actions may be unfinished at most.
  virtual std::int32_t most_ahead() const = 0;
  /// Mark the calls that belong to the action: everything that the thread calls between begin() and end().
  /// They never wait.
  virtual void begin(std::int32_t number) = 0;
  virtual void end(std::int32_t number) = 0;
  /// Return the state of an action that is among the last most_ahead(). They never wait.
  virtual bool has_begun(std::int32_t number) const = 0;
  virtual bool has_ended(std::int32_t number) const = 0;
  /// Returns the times on the clock of the run. Requires that has_ended() has returned true.
  virtual MessageTime time_of(std::int32_t number) const = 0;
};

}  // namespace penstock

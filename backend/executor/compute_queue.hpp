#pragma once
// The interface between the executor and a device queue that runs a rank's compute actions asynchronously,
// such as a CUDA stream.

#include <cstdint>

#include "backend/executor/transport.hpp"

namespace penstock {

/// A queue that runs the compute actions of one rank one after the other, while the rank's thread continues.
/// Actions are numbered from 0 in the order of their submission. Only the rank's thread calls it, except for
/// time_of(). A function that fails throws an exception.
class ComputeQueue {
 public:
  ComputeQueue() = default;
  ComputeQueue(const ComputeQueue&) = delete;
  ComputeQueue& operator=(const ComputeQueue&) = delete;
  virtual ~ComputeQueue() = default;

  /// Returns the largest number of submitted actions that may be unfinished at one time.
  virtual std::int32_t most_ahead() const = 0;
  /// begin() and end() surround the device calls that belong to action `number`. They never wait.
  virtual void begin(std::int32_t number) = 0;
  virtual void end(std::int32_t number) = 0;
  /// has_begun() and has_ended() return the state of an action. The action must be one of the last
  /// most_ahead() submitted. They never wait.
  virtual bool has_begun(std::int32_t number) const = 0;
  virtual bool has_ended(std::int32_t number) const = 0;
  /// Returns the start and end of the action on the run's clock. Requires that has_ended() has returned true
  /// for the action.
  virtual MessageTime time_of(std::int32_t number) const = 0;
};

}  // namespace penstock

#pragma once
// Streams and events in real time. Each stream is a thread that runs its operations in order.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace standin {

/// The result of one cudaEventRecord call.
struct Record {
  std::atomic<bool> passed = false;
};

class Event {
 public:
  void set(std::shared_ptr<Record> record);
  /// Returns the last record, or null if the event was never recorded.
  std::shared_ptr<Record> last() const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Record> last_;
};

class Stream {
 public:
  static std::shared_ptr<Stream> start(int device);

  int device() const { return device_; }
  void give(std::function<void()> operation);
  /// Waits until all operations that are now enqueued have ended.
  void wait();
  /// Closes the stream. No operation may be enqueued after this. The thread ends after the remaining
  /// operations.
  void close();

 private:
  explicit Stream(int device) : device_(device) {}
  void carry_out();

  int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::uint64_t given_ = 0;
  std::uint64_t ended_ = 0;
  bool is_closed_ = false;
};

/// Waits until all operations that are now enqueued on the device's streams have ended.
void wait_for_device(int device);

}  // namespace standin

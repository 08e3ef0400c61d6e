#pragma once
// Streams and events in real time: each stream is a thread that carries out what it is given, in order.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace standin {

/// One cudaEventRecord.
struct Record {
  std::atomic<bool> passed = false;
};

class Event {
 public:
  void set(std::shared_ptr<Record> record);
  /// Null: never recorded.
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
  /// Until what it has been given so far has ended.
  void wait();
  /// No more is given. Its thread ends when it has carried out the rest.
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

/// Until what its streams have been given so far has ended.
void wait_for_device(int device);

}  // namespace standin

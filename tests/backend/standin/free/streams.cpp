// A stream is owned by its handle and its thread together, so a destroyed stream still runs its enqueued
// operations. At the end of the program, the threads are not stopped.

#include "tests/backend/standin/free/streams.hpp"

#include <thread>
#include <utility>
#include <vector>

namespace standin {
namespace {

/// All streams of this process. It is never destroyed, because threads may outlive main().
struct AllStreams {
  std::mutex mutex;
  std::vector<std::weak_ptr<Stream>> streams;
};
AllStreams& all_streams() {
  static AllStreams& all = *new AllStreams;
  return all;
}

}  // namespace

void Event::set(std::shared_ptr<Record> record) {
  const std::scoped_lock lock(mutex_);
  last_ = std::move(record);
}

std::shared_ptr<Record> Event::last() const {
  const std::scoped_lock lock(mutex_);
  return last_;
}

std::shared_ptr<Stream> Stream::start(int device) {
  const std::shared_ptr<Stream> stream(new Stream(device));
  std::thread([stream] { stream->carry_out(); }).detach();
  const std::scoped_lock lock(all_streams().mutex);
  std::erase_if(all_streams().streams, [](const auto& one) { return one.expired(); });
  all_streams().streams.push_back(stream);
  return stream;
}

void Stream::give(std::function<void()> operation) {
  const std::scoped_lock lock(mutex_);
  queue_.push_back(std::move(operation));
  ++given_;
  changed_.notify_all();
}

/// Like cudaStreamSynchronize(), it does not wait for operations that are enqueued during the wait.
void Stream::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this, given = given_] { return ended_ >= given; });
}

void Stream::close() {
  const std::scoped_lock lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

void Stream::carry_out() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_closed_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::function<void()> operation = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    operation();
    lock.lock();
    ++ended_;
    changed_.notify_all();
  }
}

void wait_for_device(int device) {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    const std::scoped_lock lock(all_streams().mutex);
    for (const auto& one : all_streams().streams) streams.push_back(one.lock());
  }
  for (const auto& stream : streams) {
    if (stream != nullptr && stream->device() == device) stream->wait();
  }
}

}  // namespace standin

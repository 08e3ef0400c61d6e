#pragma once
// A transport between the executor and another transport, which it watches.

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/executor/transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// A call of collect(): the rank, and the collective that it asked for.
struct Collected {
  std::int32_t message = 0;
  std::int32_t rank = 0;
  friend auto operator<=>(const Collected&, const Collected&) = default;
};

/// Passes all calls to `inner`, except those for one message, which is lost. If the message is a collective,
/// only the contribution of rank 1 is lost.
class WatchedTransport : public Transport {
 public:
  explicit WatchedTransport(Transport& inner, std::int32_t lost = kNone) : inner_(inner), lost_(lost) {}

  ChannelOptions channels() const override { return inner_.channels(); }
  void send(std::int32_t message, Payload payload) override {
    if (message != lost_) inner_.send(message, std::move(payload));
  }
  void expect(std::int32_t message) override { inner_.expect(message); }
  void begin_group(std::int32_t rank) override { inner_.begin_group(rank); }
  void end_group(std::int32_t rank) override { inner_.end_group(rank); }
  void release(std::int32_t position) override { inner_.release(position); }
  void join(std::int32_t message, std::int32_t rank, SharedPayload contribution) override {
    if (message != lost_ || rank != 1) inner_.join(message, rank, std::move(contribution));
  }
  void wait(std::int32_t message, std::int32_t rank) override { inner_.wait(message, rank); }
  Payload take(std::int32_t message) override { return inner_.take(message); }
  std::vector<SharedPayload> collect(std::int32_t message, std::int32_t rank) override {
    const std::scoped_lock lock(mutex_);
    collected_.push_back({message, rank});
    return inner_.collect(message, rank);
  }
  void stop() override { inner_.stop(); }
  MessageTime time_of(std::int32_t message) const override { return inner_.time_of(message); }

  /// Returns all calls of collect(). Requires that all workers have ended.
  const std::vector<Collected>& collected() const { return collected_; }

 private:
  Transport& inner_;
  std::int32_t lost_;
  std::mutex mutex_;
  std::vector<Collected> collected_;
};

}  // namespace penstock

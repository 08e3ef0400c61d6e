// The connections of a worker. The thread that moves frames distributes the received messages:
//
//     coordinator --- Welcome, Prepare, Go, End ---> stored until the rank's thread asks for it
//                 --- Verdict ---------------------> ends every wait of that thread
//     peer        --- frame -----------------------> the transport of the present run
//
// Tests: tests/backend/process_faults_test.cpp.

#include "backend/process/worker_connections.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/executor/executor.hpp"
#include "backend/executor/transport.hpp"
#include "backend/process/clock_alignment.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/fault_judge.hpp"
#include "backend/process/job_secret.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/process_run.hpp"
#include "backend/process/socket_loop.hpp"
#include "backend/process/socket_transport.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

/// The error text if the connection to rank 0 ended without a refusal.
static constexpr const char* kWentAway =
    "rank 0 went away while joining: its process ended or closed the connection";

WorkerConnections::WorkerConnections(const ProcessExecution& execution, std::int32_t rank,
                                     std::span<const Progress> progress, const HostClock& host)
    : execution_(execution),
      sizes_(execution.flat),
      rank_(rank),
      progress_(progress[index(rank)]),
      host_(host),
      watchdog_(execution.flat, progress, execution.deadline),
      peers_(peers_of(execution.flat, rank)),
      loop_({.received = [this](ConnectionId from, const Frame& frame) { received(from, frame); },
             .closed = [this](ConnectionId connection, Closing why) { closed(connection, why); },
             .most_bytes =
                 [this](ConnectionId from, const Frame& begun) {
                   return from == coordinator_ ? most_bytes_of(begun, sizes_) : most_data_bytes();
                 }}) {}

std::size_t WorkerConnections::most_data_bytes() const {
  return sizeof(DataHeader) + (execution_.codec == nullptr ? 0 : execution_.most_payload_bytes);
}

// --- joining ----------------------------------------------------------------------------------------

void WorkerConnections::adopt(RankEnds ends) {
  is_forked_ = true;
  coordinator_ = loop_.adopt(ends.coordinator.release());
  for (auto& [peer, end] : ends.peers) {
    links_[peer] = loop_.adopt(end.release());
    peer_of_link_[links_[peer]] = peer;
  }
}

tl::expected<Endpoint, ExecutionError> WorkerConnections::reach(const ProcessPlace& place) {
  meeting_ = place.coordinator;
  auto coordinator = loop_.connect(place.coordinator, steady_clock::now() + launched_patience(execution_));
  if (!coordinator) return tl::unexpected(unreachable(coordinator.error()));
  coordinator_ = *coordinator;
  // Rank 0 writes the secret file before it listens. If a connection exists, the file therefore exists, too.
  const auto secret = place.secret.empty() ? left_secret(place.coordinator.port) : place.secret;
  if (!secret) {
    // If a signal ends rank 0, rank 0 first removes the secret and then closes its connections. A missing
    // secret can therefore mean that rank 0 is ending.
    constexpr std::chrono::milliseconds kToEnd(500);
    if (loop_.ends_within(coordinator_, kToEnd)) return tl::unexpected(error_at_start(kWentAway));
    return tl::unexpected(without_secret(secret.error()));
  }
  loop_.prove_with(*secret);
  auto data = loop_.bind({.address = loop_.local_address(coordinator_), .port = 0});
  if (!data) return tl::unexpected(error_at_start(data.error()));
  if (const auto listens = loop_.listen(); !listens) return tl::unexpected(error_at_start(listens.error()));
  return *std::move(data);
}

bool WorkerConnections::has_met(std::int32_t peer) const {
  const std::scoped_lock lock(mutex_);
  return links_.contains(peer);
}

void WorkerConnections::meet_peers(const Welcome& welcome) {
  for (const std::int32_t peer : peers_) {
    // In each pair, only the higher rank connects, so that there is one connection.
    if (peer > rank_ || has_met(peer)) continue;  // higher ranks connect to this one in the meantime
    const auto link = loop_.connect(welcome.peers.at(index(peer)), steady_clock::now() + execution_.patience,
                                    [this] { return stop_.stop_requested(); });
    if (stop_.stop_requested()) throw Stopped{};
    if (!link) throw std::runtime_error(fmt::format("no connection to rank {}: {}", peer, link.error()));
    loop_.send(*link, encoded(Greeting{rank_}));
    const std::scoped_lock lock(mutex_);
    links_[peer] = *link;
    peer_of_link_[*link] = peer;
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return verdict_ || links_.size() == peers_.size(); });
  if (verdict_) throw Stopped{};
}

ExecutionError WorkerConnections::error_at_start(const std::string& what) const {
  // All launched ranks join at rank 0, so the error names rank 0 as the peer.
  return {.rank = rank_,
          .action = "the start",
          .peer = 0,
          .message = fmt::format("rank {}: the start: {}", rank_, what)};
}

ExecutionError WorkerConnections::unreachable(const std::string& why) const {
  return error_at_start(fmt::format("waited {:g} s for rank 0 to join it: {}",
                                    std::chrono::duration<double>(launched_patience(execution_)).count(),
                                    why));
}

ExecutionError WorkerConnections::without_secret(const std::string& why) const {
  return error_at_start(
      fmt::format("who listens on {} for rank 0 has left no secret for this job's ranks: {}; start all ranks "
                  "on one host as one user, or give them the same PENSTOCK_SECRET",
                  to_text(meeting_), why));
}

// --- messages from the coordinator ------------------------------------------------------------------

template <typename Word>
Word WorkerConnections::awaited(std::optional<Word>& word) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return verdict_ || word; });
  if (verdict_) throw Stopped{};
  return *std::exchange(word, std::nullopt);
}

Welcome WorkerConnections::welcome() { return awaited(welcome_); }
Go WorkerConnections::go() { return awaited(go_); }

std::optional<Prepare> WorkerConnections::next_run() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return verdict_ || prepare_ || end_; });
  if (verdict_) throw Stopped{};
  if (!prepare_) return std::nullopt;
  return std::exchange(prepare_, std::nullopt);
}

void WorkerConnections::give_up(const std::string& what) {
  say(Failed{report(), what});
  std::unique_lock lock(mutex_);
  // The coordinator receives all failures and determines which was the first. If it sends no verdict in time,
  // this rank reports its own failure.
  const bool judged = changed_.wait_for(lock, execution_.deadline, [this] { return verdict_.has_value(); });
  if (!judged) verdict_ = watchdog_.failure_of(rank_, what);
}

ExecutionError WorkerConnections::verdict() const {
  const std::scoped_lock lock(mutex_);
  return *verdict_;
}

void WorkerConnections::attach(RankTransport* transport) {
  const std::scoped_lock lock(mutex_);
  transport_ = transport;
  // The run may have failed before this transport existed.
  if (transport != nullptr && verdict_) transport->transport->stop();
}

// --- both threads -----------------------------------------------------------------------------------

Report WorkerConnections::report() const {
  const Ns now = host_.shown_at(host_now_ns());
  Report report{.position = progress_.position, .waits_for = progress_.waits_for, .at_ns = now};
  // since_ns must be read after the other fields of Progress. 0 means that the rank has not started yet.
  report.since_ns = std::max<Ns>(0, host_.shown_at(progress_.since_ns));
  return report;
}

/// Stops this rank, because the run has failed on this rank or on another one.
void WorkerConnections::stop(const ExecutionError& error) {
  const std::scoped_lock lock(mutex_);
  if (!verdict_) verdict_ = error;
  stop_.request_stop();
  if (transport_ != nullptr) transport_->transport->stop();
  changed_.notify_all();
}

// --- the thread that moves frames -------------------------------------------------------------------

std::jthread WorkerConnections::start_moving() {
  heard_ns_ = host_now_ns();
  return std::jthread([this](const std::stop_token& stop) { move_frames(stop); });
}

void WorkerConnections::move_frames(const std::stop_token& stopped) {
  try {
    move_frames_until(stopped);
  } catch (const std::exception& error) {
    stop(watchdog_.failure_of(rank_, error.what()));
  }
}

void WorkerConnections::move_frames_until(const std::stop_token& stopped) {
  const std::stop_callback wake(stopped, [this] { loop_.interrupt(); });
  const nanoseconds period = report_period(execution_);
  auto next = steady_clock::now();
  while (!stopped.stop_requested()) {
    const auto now = steady_clock::now();
    // This process was suspended, so it could receive no messages. The silence of the coordinator must not
    // count as a failure. The coordinator decides whether the suspension is one.
    if (now - next > execution_.deadline) heard_ns_ = host_now_ns();
    if (now >= next) {
      next = now + period;
      tick();
    }
    loop_.run_until(next);
  }
}

void WorkerConnections::tick() {
  // The parent reads nothing until all ranks are forked. Reports before that time would fill the socket's
  // buffer.
  if (has_heard_ || !is_forked_) say(report());
  // A rank that was forked early hears nothing until the last rank is forked. It takes long to fork a large
  // process, so the limit is longer during this time.
  constexpr std::chrono::milliseconds kToForkOne(25);
  const bool may_be_forking = is_forked_ && !has_heard_;
  const nanoseconds most =
      execution_.deadline + (may_be_forking ? execution_.flat.rank_count * kToForkOne : nanoseconds(0));
  if (nanoseconds(host_now_ns() - heard_ns_) <= most) return;
  const std::string what = fmt::format("the coordinator gave no sign of life for {:g} s",
                                       std::chrono::duration<double>(most).count());
  // The coordinator may have been suspended until all ranks had ended. Without this message, it would take
  // the closed connection for a normal end.
  say(Failed{report(), what});
  loop_.run_until(steady_clock::now());  // writes queued frames, which would be lost when this process ends
  stop(watchdog_.failure_of(rank_, what));
}

/// Passes a received frame to the transport if it comes from a peer. Returns false if it does not come from
/// a peer.
bool WorkerConnections::deliver(ConnectionId from, const Frame& frame) {
  const std::scoped_lock lock(mutex_);
  const auto link = peer_of_link_.find(from);
  if (link == peer_of_link_.end()) return false;
  if (transport_ != nullptr && transport_->receive) transport_->receive(link->second, frame);
  return true;
}

void WorkerConnections::received(ConnectionId from, const Frame& frame) {
  if (deliver(from, frame)) return;
  const auto message = decoded(frame, sizes_);
  if (from != coordinator_) {
    const auto* greeting = message ? std::get_if<Greeting>(&*message) : nullptr;
    greeting == nullptr ? loop_.close(from) : greet(from, *greeting);
    return;
  }
  // Even a message that cannot be decoded shows that the coordinator is alive.
  heard_ns_ = host_now_ns();
  has_heard_ = true;
  if (message) std::visit([this](const auto& told) { hear(told); }, *message);
}

void WorkerConnections::greet(ConnectionId from, const Greeting& greeting) {
  const std::scoped_lock lock(mutex_);
  // The other rank is already connected, or the program has no messages between the two ranks.
  if (links_.contains(greeting.rank) || !std::ranges::binary_search(peers_, greeting.rank)) {
    loop_.close(from);
  } else {
    links_[greeting.rank] = from;
    peer_of_link_[from] = greeting.rank;
    changed_.notify_all();
  }
}

void WorkerConnections::hear(const ClockQuestion& question) {
  say(ClockAnswer{.sent_ns = question.sent_ns, .shown_ns = host_.shown_at(host_now_ns())});
}

template <typename Word>
void WorkerConnections::store(std::optional<Word>& slot, const Word& word) {
  const std::scoped_lock lock(mutex_);
  slot = word;
  changed_.notify_all();
}

/// Handles a connection that was closed. If it was a connection to a peer, does nothing, because the
/// coordinator handles failures of peers.
void WorkerConnections::closed(ConnectionId connection, Closing why) {
  if (connection != coordinator_) return;
  if (why == Closing::by_peer) {
    const bool has_joined = has_heard_ || is_forked_;
    stop(has_joined ? watchdog_.failure_of(rank_, "the coordinator has gone") : error_at_start(kWentAway));
  } else if (why == Closing::refused) {
    stop(error_at_start(
        "rank 0 turned this process away: do all ranks have the same user and PENSTOCK_SECRET?"));
  } else {
    stop(
        error_at_start(fmt::format("who listens on {} is not rank 0 of this job: do all ranks have the same "
                                   "MASTER_ADDR and MASTER_PORT?",
                                   to_text(meeting_))));
  }
}

}  // namespace penstock

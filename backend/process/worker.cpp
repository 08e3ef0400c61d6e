// Two threads: the caller's runs the rank's list, another moves all frames, reports progress and listens to
// the coordinator.

#include "backend/process/worker.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/executor/clock.hpp"
#include "backend/executor/compute_queue.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/progress.hpp"
#include "backend/executor/rank_worker.hpp"
#include "backend/executor/transport.hpp"
#include "backend/executor/watchdog.hpp"
#include "backend/process/clock_alignment.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/data_frame.hpp"
#include "backend/process/job_secret.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/rank_sockets.hpp"
#include "backend/process/socket_loop.hpp"
#include "backend/process/socket_transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

class Worker {
 public:
  Worker(const ProcessExecution& execution, std::int32_t rank, HostClock host)
      : execution_(execution),
        flat_(execution.flat),
        sizes_(flat_),
        rank_(rank),
        host_(std::move(host)),
        digest_(digest(execution.program)),
        progress_(index(flat_.rank_count)),
        watchdog_(flat_, progress_, execution.deadline),
        peers_(peers_of_ranks(flat_)[index(rank)]),
        loop_({.received = [this](ConnectionId from, const Frame& frame) { received(from, frame); },
               .closed = [this](ConnectionId connection, Closing why) { closed(connection, why); },
               .most_bytes =
                   [this](ConnectionId from, const Frame& begun) {
                     return from == coordinator_ ? most_bytes_of(begun, sizes_) : most_data_bytes();
                   }}) {}

  tl::expected<void, ExecutionError> run(RankEnds ends) {
    coordinator_ = loop_.adopt(ends.coordinator.release());
    for (auto& [peer, end] : ends.peers) {
      links_[peer] = loop_.adopt(end.release());
      peer_of_link_[links_[peer]] = peer;
    }
    return take_part({});
  }

  tl::expected<void, ExecutionError> run(const ProcessPlace& place) {
    auto coordinator = loop_.connect(place.coordinator, steady_clock::now() + execution_.patience);
    if (!coordinator) return tl::unexpected(unreachable(coordinator.error()));
    coordinator_ = *coordinator;
    // Not before somebody listens there, who has left the secret by then.
    const auto secret = place.secret.empty() ? left_secret(place.coordinator.port) : place.secret;
    if (!secret) return tl::unexpected(without_secret(place.coordinator, secret.error()));
    loop_.prove_with(*secret);
    const auto data = loop_.bind({.address = loop_.local_address(coordinator_), .port = 0});
    if (!data) return tl::unexpected(unreachable(data.error()));
    if (const auto listens = loop_.listen(); !listens) return tl::unexpected(unreachable(listens.error()));
    return take_part(*data);
  }

 private:
  // --- the caller's thread ------------------------------------------------------------------------

  tl::expected<void, ExecutionError> take_part(const Endpoint& data) {
    heard_ns_ = host_now_ns();
    join(data);  // before the thread reports anything
    const std::jthread moving([this](const std::stop_token& stop) { move_frames(stop); });
    try {
      meet_peers();
      const MakeRankTransport make = transport_maker();
      while (const auto number = next_run()) run_once(*number, make);
      return {};
    } catch (const Stopped&) {  // NOLINT(bugprone-empty-catch): the verdict says why
    } catch (const std::bad_alloc&) {
      give_up("it has too little memory");
    } catch (const std::exception& error) {
      give_up(error.what());
    } catch (...) {
      give_up("an exception of unknown type");
    }
    const std::scoped_lock lock(mutex_);
    return tl::unexpected(*verdict_);
  }

  ExecutionError error_at_start(const std::string& what) const {
    return {.rank = rank_, .action = "the start", .message = fmt::format("rank {}: {}", rank_, what)};
  }

  ExecutionError unreachable(const std::string& why) const {
    return error_at_start(fmt::format("waited {:g} s for the coordinator: {}",
                                      std::chrono::duration<double>(execution_.patience).count(), why));
  }

  ExecutionError without_secret(const Endpoint& coordinator, const std::string& why) const {
    return error_at_start(fmt::format(
        "who listens on {} has left no secret for this job's ranks: {}; start all ranks on one host as one "
        "user, or give them the same PENSTOCK_SECRET",
        to_text(coordinator), why));
  }

  std::size_t most_data_bytes() const {
    return sizeof(DataHeader) + (execution_.codec == nullptr ? 0 : execution_.most_payload_bytes);
  }

  void join(const Endpoint& data) {
    say(Hello{.rank = rank_,
              .process_id = getpid(),
              .digest = digest_,
              .boot_id = own_boot_id(data),
              .data = data});
  }

  /// Forked ranks are where their parent is.
  std::string own_boot_id(const Endpoint& data) const {
    if (data.port == 0) return "";
    return host_.boot_id.empty() ? boot_id() : host_.boot_id;
  }

  /// On this machine's clock.
  steady_clock::time_point steady_moment(Ns of_host_ns) const {
    return steady_clock::time_point(nanoseconds(host_.steady_at(of_host_ns)));
  }

  /// Of each pair the higher rank connects to the lower one.
  void meet_peers() {
    const Welcome welcome = awaited(welcome_);
    clock_ =
        std::make_unique<SteadyClock>(execution_.time_scale / host_.rate, steady_moment(welcome.origin_ns));
    for (const std::int32_t peer : peers_) {
      if (peer > rank_ || links_.contains(peer)) continue;
      const auto link =
          loop_.connect(welcome.peers.at(index(peer)), steady_clock::now() + execution_.patience);
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

  /// Nothing when all is done.
  std::optional<std::int32_t> next_run() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return verdict_ || prepare_ || end_; });
    if (verdict_) throw Stopped{};
    if (!prepare_) return std::nullopt;
    return std::exchange(prepare_, std::nullopt)->run;
  }

  MakeRankTransport transport_maker() {
    if (!execution_.transport) return [this](const RankRun& run) { return over_sockets(run); };
    return execution_.transport(rank_, [this] { return stop_.stop_requested(); });
  }

  RankTransport over_sockets(const RankRun& run) const {
    auto sockets = std::make_unique<SocketTransport>(SocketTransportParts{.flat = flat_,
                                                                          .pace = execution_.pace,
                                                                          .clock = run.clock,
                                                                          .codec = execution_.codec,
                                                                          .rank = rank_,
                                                                          .run = run.run,
                                                                          .send = run.send});
    SocketTransport& transport = *sockets;
    return {
        .transport = std::move(sockets),
        .own_times = [&transport] { return transport.own_times(); },
        .receive = [&transport](std::int32_t peer, const Frame& frame) { transport.receive(peer, frame); }};
  }

  void run_once(std::int32_t number, const MakeRankTransport& make) {
    StageModules modules = execution_.modules(rank_, *clock_);
    RankTransport transport =
        make({.run = number, .clock = *clock_, .send = [this](std::int32_t peer, Frame frame) {
                loop_.send(links_.at(peer), std::move(frame));
              }});
    const Connected connected(*this, transport);
    stand_at_start();
    say(Ready{number});
    const Go go = awaited(go_);
    std::this_thread::sleep_until(steady_moment(go.start_ns));
    stand_at_start();
    ProgramTimes times = empty_times(flat_);
    std::vector<ComputeQueue*> queues;
    if (transport.queue != nullptr) queues.assign(index(flat_.rank_count), transport.queue.get());
    RankWorker({.program = execution_.program,
                .flat = flat_,
                .modules = modules,
                .transport = *transport.transport,
                .clock = *clock_,
                .queues = queues},
               rank_, times, progress_[index(rank_)])
        .run(stop_.get_token());
    Done done = done_of(number, times, transport.own_times());
    if (execution_.finished) done.account = execution_.finished(rank_, modules);
    say(done);
  }

  Done done_of(std::int32_t number, const ProgramTimes& times,
               const std::vector<MessageTime>& messages) const {
    const std::int32_t begin = flat_.rank_begin[index(rank_)];
    const std::int32_t end = flat_.rank_begin[index(rank_) + 1];
    Done done{.run = number,
              .start = {times.start.begin() + begin, times.start.begin() + end},
              .end = {times.end.begin() + begin, times.end.begin() + end},
              .message_start = {},
              .message_end = {},
              .account = {}};
    for (const MessageTime& time : messages) {
      done.message_start.push_back(time.start_ns);
      done.message_end.push_back(time.end_ns);
    }
    return done;
  }

  void stand_at_start() {
    Progress& progress = progress_[index(rank_)];
    progress.since_ns = host_now_ns();
    progress.position = kNone;
    progress.waits_for = kNone;
  }

  /// The coordinator's word, not before it has come. Throws Stopped when the run has failed.
  template <typename Word>
  Word awaited(std::optional<Word>& word) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return verdict_ || word; });
    if (verdict_) throw Stopped{};
    return *std::exchange(word, std::nullopt);
  }

  /// Tells the coordinator what happened here, and lets it judge.
  void give_up(const std::string& what) {
    say(Failed{report(), what});
    std::unique_lock lock(mutex_);
    const bool judged = changed_.wait_for(lock, execution_.deadline, [this] { return verdict_.has_value(); });
    if (!judged) verdict_ = watchdog_.failure_of(rank_, what);
  }

  // --- both threads -------------------------------------------------------------------------------

  void say(const ControlMessage& message) { loop_.send(coordinator_, encoded(message)); }

  Report report() const {
    const Progress& progress = progress_[index(rank_)];
    const Ns now = host_.shown_at(host_now_ns());
    Report report{.position = progress.position, .waits_for = progress.waits_for, .at_ns = now};
    // Read last, as Progress wants it. 0: it has not stood anywhere yet.
    report.since_ns = std::max<Ns>(0, host_.shown_at(progress.since_ns));
    return report;
  }

  /// The run has failed: this rank ends.
  void stop(const ExecutionError& error) {
    const std::scoped_lock lock(mutex_);
    if (!verdict_) verdict_ = error;
    stop_.request_stop();
    if (transport_ != nullptr) transport_->transport->stop();
    changed_.notify_all();
  }

  // --- the thread that moves frames -----------------------------------------------------------------

  void move_frames(const std::stop_token& stopped) {
    try {
      move_frames_until(stopped);
    } catch (const std::exception& error) {
      stop(watchdog_.failure_of(rank_, error.what()));
    }
  }

  void move_frames_until(const std::stop_token& stopped) {
    const std::stop_callback wake(stopped, [this] { loop_.interrupt(); });
    const nanoseconds period = report_period(execution_.deadline);
    auto next = steady_clock::now();
    while (!stopped.stop_requested()) {
      const auto now = steady_clock::now();
      // This process was suspended: it could hear nobody, and the coordinator judges.
      if (now - next > execution_.deadline) heard_ns_ = host_now_ns();
      if (now >= next) {
        next = now + period;
        tick();
      }
      loop_.run_until(next);
    }
  }

  void tick() {
    say(report());
    if (host_now_ns() - heard_ns_ <= execution_.deadline.count()) return;
    stop(
        watchdog_.failure_of(rank_, fmt::format("the coordinator gave no sign of life for {:g} s",
                                                std::chrono::duration<double>(execution_.deadline).count())));
  }

  /// False when it is not from a peer's transport.
  bool deliver(ConnectionId from, const Frame& frame) {
    const std::scoped_lock lock(mutex_);
    const auto link = peer_of_link_.find(from);
    if (link == peer_of_link_.end()) return false;
    if (transport_ != nullptr && transport_->receive) transport_->receive(link->second, frame);
    return true;
  }

  void received(ConnectionId from, const Frame& frame) {
    if (deliver(from, frame)) return;
    auto message = decoded(frame, sizes_);
    if (from != coordinator_) {
      const auto* greeting = message ? std::get_if<Greeting>(&*message) : nullptr;
      greeting == nullptr ? loop_.close(from) : greet(from, *greeting);
      return;
    }
    heard_ns_ = host_now_ns();
    has_heard_ = true;
    if (message) std::visit([this](auto& told) { hear(std::move(told)); }, *message);
  }

  void greet(ConnectionId from, const Greeting& greeting) {
    const std::scoped_lock lock(mutex_);
    if (links_.contains(greeting.rank) || !std::ranges::binary_search(peers_, greeting.rank)) {
      loop_.close(from);
    } else {
      links_[greeting.rank] = from;
      peer_of_link_[from] = greeting.rank;
      changed_.notify_all();
    }
  }

  void hear(Welcome&& welcome) { keep(welcome_, welcome); }
  void hear(Prepare&& prepare) { keep(prepare_, prepare); }
  void hear(Go&& go) { keep(go_, go); }
  void hear(Verdict&& verdict) { stop(verdict.error); }
  void hear(End&& end) { keep(end_, end); }
  void hear(ClockQuestion&& question) {
    say(ClockAnswer{.sent_ns = question.sent_ns, .shown_ns = host_.shown_at(host_now_ns())});
  }
  template <typename Other>
  void hear(Other&&) {}

  template <typename Word>
  void keep(std::optional<Word>& slot, const Word& word) {
    const std::scoped_lock lock(mutex_);
    slot = word;
    changed_.notify_all();
  }

  /// A peer that has gone is for the coordinator to judge.
  void closed(ConnectionId connection, Closing why) {
    if (connection != coordinator_) return;
    const bool never_met = !has_heard_;
    if (why == Closing::by_peer && !never_met) {
      stop(watchdog_.failure_of(rank_, "the coordinator has gone"));
    } else {
      stop(
          error_at_start("the coordinator turned this process away, or is no coordinator: do all ranks have "
                         "the same user and "
                         "PENSTOCK_SECRET?"));
    }
  }

  /// Frames reach a run's transport while this lives.
  class Connected {
   public:
    Connected(Worker& worker, RankTransport& transport) : worker_(worker) { set(&transport); }
    Connected(const Connected&) = delete;
    Connected& operator=(const Connected&) = delete;
    ~Connected() { set(nullptr); }

   private:
    void set(RankTransport* transport) {
      const std::scoped_lock lock(worker_.mutex_);
      worker_.transport_ = transport;
      if (transport != nullptr && worker_.verdict_) transport->transport->stop();
    }
    Worker& worker_;
  };

  const ProcessExecution& execution_;
  const FlatProgram& flat_;
  ProgramSizes sizes_;
  std::int32_t rank_;
  HostClock host_;
  std::string digest_;              // made before anybody waits for it
  std::vector<Progress> progress_;  // by rank; only this rank's is written
  Watchdog watchdog_;
  std::vector<std::int32_t> peers_;
  std::unique_ptr<SteadyClock> clock_;
  ConnectionId coordinator_ = 0;
  std::stop_source stop_;

  std::atomic<Ns> heard_ns_ = 0;  // host time of the coordinator's last sign of life
  bool has_heard_ = false;        // of the coordinator; of the thread that moves frames

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::int32_t, ConnectionId> links_;  // by peer; complete before the first run, then only read
  std::map<ConnectionId, std::int32_t> peer_of_link_;
  std::optional<Welcome> welcome_;
  std::optional<Prepare> prepare_;
  std::optional<Go> go_;
  std::optional<End> end_;
  std::optional<ExecutionError> verdict_;
  RankTransport* transport_ = nullptr;
  SocketLoop loop_;
};

}  // namespace

tl::expected<void, ExecutionError> run_worker(const ProcessExecution& execution, const ProcessPlace& place) {
  wake_this_thread_promptly();
  return Worker(execution, place.rank, place.host).run(place);
}

tl::expected<void, ExecutionError> run_worker(const ProcessExecution& execution, std::int32_t rank,
                                              RankEnds ends) {
  wake_this_thread_promptly();
  return Worker(execution, rank, {}).run(std::move(ends));
}

std::string boot_id() {
  errno = 0;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  if (errno == EMFILE || errno == ENFILE)
    throw std::system_error(errno, std::generic_category(), "the boot id");
  std::string id;
  if (std::getline(file, id) && !id.empty()) return id;
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::chrono::nanoseconds report_period(std::chrono::nanoseconds deadline) {
  // Errors name the action that was reported last: not long before the failure.
  return std::clamp<nanoseconds>(deadline / 8, std::chrono::milliseconds(1), std::chrono::milliseconds(20));
}

}  // namespace penstock

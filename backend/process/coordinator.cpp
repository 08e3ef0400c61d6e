// The coordinator goes through phases; in each it waits for one thing from every rank:
//
//   Hello   ->  Welcome   everybody has come
//   Ready   ->  Go        for each run
//   Done    ->            its times; then Prepare for the next run, or End
//
// Where ranks have other hosts, their clocks are compared with the one here before each of these arrows: by
// ClockQuestion and ClockAnswer, to and fro. What they say of moments is put onto the clock here.
//
// All along, workers report where they stand, and whoever ends or falls silent is the failure of the run.

#include "backend/process/coordinator.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/progress.hpp"
#include "backend/executor/recorder.hpp"
#include "backend/executor/watchdog.hpp"
#include "backend/process/clock_alignment.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/job_secret.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/rank_sockets.hpp"
#include "backend/process/socket_loop.hpp"
#include "backend/process/socket_transport.hpp"
#include "backend/process/worker.hpp"
#include "report/print/units.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kUntilStart(2);  // for Go to reach everybody
constexpr std::chrono::milliseconds kUntilReaped(50);
constexpr std::chrono::seconds kUntilGone(5);
constexpr std::chrono::seconds kShortestPatience(1);

/// None ends before it starts. Requires lists of one length.
bool in_order(const std::vector<Ns>& starts, const std::vector<Ns>& ends) {
  return std::ranges::equal(starts, ends, std::ranges::less_equal{});
}

double in_seconds(nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

std::string rank_list(const std::vector<std::int32_t>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace

class Coordinator::Session {
 public:
  Session(const ProcessExecution& execution, RankProcesses processes)
      : execution_(execution),
        flat_(execution.flat),
        sizes_(flat_),
        processes_(std::move(processes)),
        progress_(index(flat_.rank_count)),
        watchdog_(flat_, progress_, execution.deadline),
        peers_(index(flat_.rank_count)),
        clocks_(flat_.rank_count),
        loop_({.received = [this](ConnectionId from, const Frame& frame) { received(from, frame); },
               .closed = [this](ConnectionId connection, Closing) { closed(connection); },
               .most_bytes = [this](ConnectionId,
                                    const Frame& begun) { return most_bytes_of(begun, sizes_); }}) {}

  void adopt(std::vector<Descriptor> workers) {
    for (Descriptor& worker : workers) loop_.adopt(worker.release());
  }

  tl::expected<ProcessPlace, std::string> listen(const ProcessPlace& place) {
    auto bound = loop_.bind(place.coordinator);
    if (!bound) return tl::unexpected(bound.error() + "; give all ranks another address or port");
    ProcessPlace meeting = {
        .rank = place.rank, .coordinator = *std::move(bound), .secret = place.secret, .host = place.host};
    if (meeting.secret.empty()) {
      // Before anybody can connect: whoever can finds this job's secret, not an earlier one's.
      meeting.secret = new_secret();
      auto left = SecretFile::leave(meeting.coordinator.port, meeting.secret);
      if (!left) return tl::unexpected(left.error() + "; or give all ranks the same PENSTOCK_SECRET");
      secret_file_ = *std::move(left);
    }
    loop_.prove_with(meeting.secret);
    if (auto listens = loop_.listen(); !listens)
      return tl::unexpected(listens.error() + "; give all ranks another address or port");
    return meeting;
  }

  tl::expected<std::vector<ExecutedRun>, ExecutionError> run() {
    std::vector<ExecutedRun> runs;
    gather(Phase::joining);
    secret_file_.reset();  // nobody else is to come
    if (!error_) compare();
    compare_clocks();
    if (!error_) welcome();
    for (run_ = 0; run_ < execution_.runs && !error_; ++run_) {
      times_ = empty_times(flat_);
      accounts_.assign(peers_.size(), {});
      broadcast(Prepare{run_});
      gather(Phase::preparing);
      compare_clocks();
      if (!error_) start();
      gather(Phase::running);
      compare_clocks();
      if (error_) break;
      put_times_together();
      runs.push_back({.timeline = recorded_timeline(flat_, execution_.program.placement, times_),
                      .accounts = std::exchange(accounts_, {}),
                      .clock_error_ns = clocks_.error_ns()});
    }
    end();
    if (error_) return tl::unexpected(*std::move(error_));
    return runs;
  }

 private:
  enum class Phase : std::uint8_t { joining, comparing, preparing, running, ended };

  struct Peer {
    std::optional<ConnectionId> connection;
    Hello hello;
    Ns heard_ns = 0;       // host time of the last sign of life
    Ns reported_ns = 0;    // host time that its progress is of
    Done done{};           // of the run
    bool arrived = false;  // what the phase waits for
    bool gone = false;
  };

  // --- phases -------------------------------------------------------------------------------------

  void gather(Phase phase) {
    if (error_) return;
    phase_ = phase;
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank)
      peers_[index(rank)].arrived = phase == Phase::comparing && !clocks_.is_elsewhere(rank);
    const auto until = steady_clock::now() + patience_of(phase);
    const nanoseconds period = report_period(execution_.deadline);
    while (!error_ && !everybody_has_arrived()) {
      const auto begin = steady_clock::now();
      loop_.run_until(begin + period);
      broadcast(Alive{});
      judge(steady_clock::now() - begin, until);
    }
  }

  /// Processes that were forked here need no time to be started.
  nanoseconds patience_of(Phase phase) const {
    if (phase != Phase::joining || !processes_.how_ended) return execution_.patience;
    return std::min<nanoseconds>(execution_.patience,
                                 std::max<nanoseconds>(execution_.deadline, kShortestPatience));
  }

  bool everybody_has_arrived() const {
    return std::ranges::all_of(peers_, [](const Peer& peer) { return peer.arrived; });
  }

  void arrive(std::int32_t rank) {
    peers_[index(rank)].arrived = true;
    if (everybody_has_arrived()) loop_.interrupt();
  }

  /// A series of questions to all ranks with another clock.
  void compare_clocks() {
    if (error_ || !clocks_.some_elsewhere()) return;
    clocks_.begin_series();
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      if (clocks_.is_elsewhere(rank)) ask_for_time(rank);
    }
    gather(Phase::comparing);
  }

  void ask_for_time(std::int32_t rank) {
    const Ns now = host_now_ns();
    clocks_.ask(rank, now);
    tell(rank, ClockQuestion{.sent_ns = now});
  }

  void hear(std::int32_t rank, const ClockAnswer& answer) {
    const Ns now = host_now_ns();
    if (clocks_.answered(rank, {.sent_ns = answer.sent_ns, .there_ns = answer.shown_ns, .back_ns = now})) {
      arrive(rank);
    } else if (phase_ == Phase::comparing && !peers_[index(rank)].arrived) {
      ask_for_time(rank);
    }
  }

  void welcome() {
    const Ns origin = host_now_ns();
    clocks_.begin_times(origin, execution_.time_scale);
    Welcome welcome;
    for (const Peer& peer : peers_) welcome.peers.push_back(peer.hello.data);
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      welcome.origin_ns = clocks_.there(rank, origin);
      tell(rank, welcome);
    }
  }

  void start() {
    // To another host a word takes about as long as half a round trip.
    start_ns_ = host_now_ns() + nanoseconds(kUntilStart).count() + 2 * clocks_.error_ns().value_or(0);
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      Progress& progress = progress_[index(rank)];
      progress.since_ns = start_ns_;
      progress.position = kNone;
      progress.waits_for = kNone;
      peers_[index(rank)].reported_ns = start_ns_;
      tell(rank, Go{run_, clocks_.there(rank, start_ns_)});
    }
  }

  /// Lets everybody go who still answers.
  void end() {
    phase_ = Phase::ended;
    if (error_) {
      broadcast(Verdict{*error_});
    } else {
      broadcast(End{});
    }
    const auto until = steady_clock::now() + std::min<nanoseconds>(execution_.deadline, kUntilGone);
    while (somebody_is_there() && steady_clock::now() < until) {
      loop_.run_until(std::min(until, steady_clock::now() + report_period(execution_.deadline)));
    }
  }

  bool somebody_is_there() const {
    const Ns oldest = host_now_ns() - execution_.deadline.count();
    return !refused_.empty() || std::ranges::any_of(peers_, [&](const Peer& peer) {
      return peer.connection && !peer.gone && peer.heard_ns > oldest;
    });
  }

  void broadcast(const ControlMessage& message) {
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) tell(rank, message);
  }
  void tell(std::int32_t rank, const ControlMessage& message) {
    const Peer& peer = peers_[index(rank)];
    if (peer.connection && !peer.gone) loop_.send(*peer.connection, encoded(message));
  }

  // --- what workers say ---------------------------------------------------------------------------

  void received(ConnectionId from, const Frame& frame) {
    if (refused_.contains(from)) return;
    const auto message = decoded(frame, sizes_);
    if (!message) {
      loop_.close(from);
      closed(from);
      return;
    }
    if (const auto* hello = std::get_if<Hello>(&*message)) {
      join(from, *hello);
      return;
    }
    const auto known = ranks_.find(from);
    if (known == ranks_.end()) {
      loop_.close(from);
      return;
    }
    peers_[index(known->second)].heard_ns = host_now_ns();
    std::visit([&](const auto& told) { hear(known->second, told); }, *message);
  }

  void join(ConnectionId from, const Hello& hello) {
    if (error_) {
      refuse(from);
      return;
    }
    if (hello.rank < 0 || hello.rank >= flat_.rank_count) {
      fail_at(hello.rank, fmt::format("the program has {} ranks: a process must have a rank from 0 to {}",
                                      flat_.rank_count, flat_.rank_count - 1));
      refuse(from);
      return;
    }
    Peer& peer = peers_[index(hello.rank)];
    if (peer.connection) {
      fail_at(hello.rank, fmt::format("two processes have this rank: {} and {}", peer.hello.process_id,
                                      hello.process_id));
      refuse(from);
      return;
    }
    ranks_[from] = hello.rank;
    peer = {.connection = from, .hello = hello, .heard_ns = host_now_ns(), .reported_ns = host_now_ns()};
    arrive(hello.rank);
  }

  /// Tells the failure of the run to a process that is not one of the peers.
  void refuse(ConnectionId from) {
    refused_.insert(from);
    loop_.send(from, encoded(Verdict{*error_}));
  }

  /// All must run the same program. Rank 0's host is this one.
  void compare() {
    for (const Peer& peer : peers_) {
      const Hello& first = peers_.front().hello;
      const Hello& other = peer.hello;
      if (other.digest != first.digest) {
        fail({.rank = other.rank,
              .action = "the start",
              .peer = first.rank,
              .message = fmt::format("rank {} has another program than rank {}: digests {} and {}; start all "
                                     "ranks with the same program and flags",
                                     other.rank, first.rank, other.digest, first.digest)});
      } else if (other.boot_id != first.boot_id) {
        clocks_.set_elsewhere(other.rank);
      }
    }
  }

  /// Its own position, or the start.
  bool can_stand_at(std::int32_t rank, std::int32_t position) const {
    return position == kNone ||
           (position >= flat_.rank_begin[index(rank)] && position <= flat_.rank_begin[index(rank) + 1]);
  }

  void hear(std::int32_t rank, const Report& report) {
    if (!can_stand_at(rank, report.position)) {
      fail_at(rank, "it reported a place of another rank's list");
      return;
    }
    Progress& progress = progress_[index(rank)];
    progress.since_ns = std::max(clocks_.here(rank, report.since_ns), start_ns_);
    progress.position = report.position;
    progress.waits_for = report.waits_for;
    peers_[index(rank)].reported_ns = clocks_.here(rank, report.at_ns);
  }

  void hear(std::int32_t rank, const Ready& ready) {
    if (phase_ == Phase::preparing && ready.run == run_) arrive(rank);
  }

  void hear(std::int32_t rank, const Done& done) {
    if (phase_ != Phase::running || done.run != run_) return;
    const std::vector<std::int32_t> messages = messages_of(flat_, rank);
    const std::size_t positions = index(flat_.rank_begin[index(rank) + 1] - flat_.rank_begin[index(rank)]);
    if (done.start.size() != positions || done.end.size() != positions ||
        done.message_start.size() != messages.size() || done.message_end.size() != messages.size()) {
      fail_at(rank, "it sent times of another program");
      return;
    }
    if (!in_order(done.start, done.end) || !in_order(done.message_start, done.message_end)) {
      fail_at(rank, "it sent an end that comes before its start");
      return;
    }
    peers_[index(rank)].done = done;
    accounts_[index(rank)] = done.account;
    arrive(rank);
  }

  void put_times_together() {
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      Done& done = peers_[index(rank)].done;
      for (std::vector<Ns>* times : {&done.start, &done.end, &done.message_start, &done.message_end})
        clocks_.align(rank, *times);
      const auto begin = flat_.rank_begin[index(rank)];
      std::ranges::copy(done.start, times_.start.begin() + begin);
      std::ranges::copy(done.end, times_.end.begin() + begin);
      const std::vector<std::int32_t> messages = messages_of(flat_, rank);
      for (std::size_t i = 0; i < messages.size(); ++i) {
        times_.message_start[index(messages[i])] = done.message_start[i];
        times_.message_end[index(messages[i])] = done.message_end[i];
      }
    }
  }

  void hear(std::int32_t rank, const Failed& failed) {
    hear(rank, failed.standing);
    fail_at(rank, failed.what);
  }

  template <typename Other>
  void hear(std::int32_t, const Other&) {}

  void closed(ConnectionId connection) {
    refused_.erase(connection);
    loop_.interrupt();
    const auto known = ranks_.find(connection);
    if (known == ranks_.end()) return;
    peers_[index(known->second)].gone = true;
    if (lost_ || phase_ == Phase::ended) return;
    lost_ = known->second;
    lost_at_ = steady_clock::now();
  }

  // --- faults -------------------------------------------------------------------------------------

  void judge(nanoseconds pause, steady_clock::time_point until) {
    switch (pause_of(pause, execution_.deadline)) {
      case Pause::as_usual:
        look_for_faults(until);
        return;
      case Pause::too_long_to_judge:
        return;
      case Pause::suspended:
        fail(suspended_for(pause));
        return;
    }
  }

  void look_for_faults(steady_clock::time_point until) {
    if (error_) return;
    if (lost_) {
      // One report later the others say that they wait for it.
      if (steady_clock::now() - lost_at_ > report_period(execution_.deadline) * 3 / 2)
        fail_at(*lost_, end_of(*lost_));
    } else if (const auto silent = silent_rank()) {
      fail_at(*silent, fmt::format("{} for {:g} s",
                                   is_suspended(*silent) ? "its process is suspended and gave no sign of life"
                                                         : "gave no sign of life",
                                   in_seconds(execution_.deadline)));
    } else if (phase_ == Phase::joining) {
      look_for_missing(until);
    } else if (phase_ == Phase::running) {
      if (auto late = watchdog_.overdue(oldest_report_ns())) fail(*std::move(late));
    } else if (steady_clock::now() > until) {
      const std::vector<std::int32_t> missing = not_arrived();
      const std::string what = phase_ == Phase::comparing ? std::string("say what the clock shows there")
                                                          : fmt::format("make ready for run {}", run_);
      fail_at(missing.front(), fmt::format("waited {:g} s for {} to {}", in_seconds(execution_.patience),
                                           rank_list(missing), what));
    }
  }

  void look_for_missing(steady_clock::time_point until) {
    const std::vector<std::int32_t> missing = not_arrived();
    for (const std::int32_t rank : missing) {
      if (const auto how = how_ended(rank)) {
        fail_at(rank, *how);
        return;
      }
    }
    if (missing.empty() || steady_clock::now() <= until) return;
    std::string message =
        fmt::format("waited {:g} s for {}", in_seconds(patience_of(phase_)), rank_list(missing));
    if (std::ranges::any_of(missing, [this](std::int32_t rank) { return is_suspended(rank); }))
      message += ", suspended by a signal";
    if (const std::int64_t strangers = loop_.strangers(); strangers > 0) {
      message += fmt::format(
          "; turned away {} without the job's secret: do all ranks have the same user and PENSTOCK_SECRET?",
          format_count(strangers, "connection"));
    }
    fail_at_start(missing.front(), std::move(message));
  }

  std::optional<std::string> how_ended(std::int32_t rank) const {
    return processes_.how_ended ? processes_.how_ended(rank) : std::nullopt;
  }
  bool is_suspended(std::int32_t rank) const {
    return processes_.is_suspended && processes_.is_suspended(rank);
  }

  std::vector<std::int32_t> not_arrived() const {
    std::vector<std::int32_t> missing;
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      if (!peers_[index(rank)].arrived) missing.push_back(rank);
    }
    return missing;
  }

  std::optional<std::int32_t> silent_rank() const {
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      const Peer& peer = peers_[index(rank)];
      if (peer.connection && host_now_ns() - peer.heard_ns > execution_.deadline.count()) return rank;
    }
    return std::nullopt;
  }

  /// What is reported is judged as of then, so that a worker that has got on since is not late.
  Ns oldest_report_ns() const {
    return std::ranges::min(peers_, {}, [](const Peer& peer) { return peer.reported_ns; }).reported_ns;
  }

  /// The connection closes before the parent can be told how.
  std::string end_of(std::int32_t rank) const {
    const auto until = steady_clock::now() + kUntilReaped;
    auto how = how_ended(rank);
    while (!how && steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      how = how_ended(rank);
    }
    return how.value_or("its process has closed the connection");
  }

  void fail_at(std::int32_t rank, const std::string& what) {
    if (error_) return;
    if (rank < 0 || rank >= flat_.rank_count) {
      fail({.rank = rank, .action = "the start", .message = fmt::format("rank {}: {}", rank, what)});
    } else if (phase_ != Phase::running) {
      const std::string who = is_alone() ? "" : fmt::format("; rank {} waits for it there", other_than(rank));
      fail_at_start(rank, fmt::format("rank {}: the start: {}{}", rank, what, who));
    } else {
      fail(watchdog_.failure_of(rank, what));
    }
  }

  /// All ranks set off together, so that each waits for the one that does not come; the lowest is named.
  void fail_at_start(std::int32_t rank, std::string message) {
    fail({.rank = rank,
          .action = "the start",
          .peer = is_alone() ? -1 : other_than(rank),
          .message = std::move(message)});
  }
  bool is_alone() const { return flat_.rank_count == 1; }
  static std::int32_t other_than(std::int32_t rank) { return rank == 0 ? 1 : 0; }

  void fail(ExecutionError error) {
    if (!error_) error_ = std::move(error);
    loop_.interrupt();
  }

  const ProcessExecution& execution_;
  const FlatProgram& flat_;
  ProgramSizes sizes_;
  RankProcesses processes_;
  std::optional<SecretFile> secret_file_;
  std::vector<Progress> progress_;
  Watchdog watchdog_;
  std::vector<Peer> peers_;  // by rank
  RankClocks clocks_;
  std::map<ConnectionId, std::int32_t> ranks_;
  std::set<ConnectionId> refused_;
  std::optional<std::int32_t> lost_;  // the first whose connection has closed
  steady_clock::time_point lost_at_;
  Phase phase_ = Phase::joining;
  std::int32_t run_ = 0;
  Ns start_ns_ = 0;
  ProgramTimes times_;
  std::vector<RankAccount> accounts_;  // by rank
  std::optional<ExecutionError> error_;
  SocketLoop loop_;
};

Coordinator::Coordinator(const ProcessExecution& execution, RankProcesses processes)
    : session_(std::make_unique<Session>(execution, std::move(processes))) {}

Coordinator::~Coordinator() = default;

void Coordinator::adopt(std::vector<Descriptor> workers) { session_->adopt(std::move(workers)); }

tl::expected<ProcessPlace, std::string> Coordinator::listen(const ProcessPlace& place) {
  return session_->listen(place);
}

tl::expected<std::vector<ExecutedRun>, ExecutionError> Coordinator::run() { return session_->run(); }

}  // namespace penstock

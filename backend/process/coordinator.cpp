// Coordinates a run in phases. In each phase the coordinator waits for one message from every rank, and then
// sends its answer:
//
//     Hello   ->  Welcome   when all ranks have joined
//     Ready   ->  Go        for each run
//     Done    ->            its times; then Prepare for the next run, or End
//
// If ranks run on other hosts, the coordinator compares their clocks with its own before it sends each of
// these messages. The comparison uses ClockQuestion and ClockAnswer. The coordinator then converts the times
// of these ranks to its own clock.
//
// Workers report their positions at regular intervals. If a rank closes its connection or stops sending, the
// run fails (fault_judge.cpp). worker.cpp has the other side of this protocol. Tests:
// tests/backend/process_run_test.cpp.

#include "backend/process/process_run.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/process/clock_alignment.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/fault_judge.hpp"
#include "backend/process/job_secret.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/socket_loop.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kUntilStart(2);  // time that Go may take until it has reached all workers
/// The time within which workers must receive the end of the run and close their connections. A worker that
/// runs a module must first return from it.
constexpr std::chrono::seconds kUntilGone(5);

}  // namespace

class Coordinator::Session {
 public:
  Session(const ProcessExecution& execution, RankProcesses processes)
      : execution_(execution),
        flat_(execution.flat),
        sizes_(flat_),
        progress_(index(flat_.rank_count)),
        attendance_(flat_.rank_count),
        judge_(execution, std::move(processes), progress_, attendance_),
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
      // The secret file is written before any rank can connect. Otherwise a rank could read the secret of an
      // earlier job.
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
    secret_file_.reset();  // all ranks have joined, so no process needs the file
    if (!error_) error_ = attendance_.difference();
    // The Hello messages say which ranks are on other hosts, so all must have arrived.
    find_other_hosts();
    compare_clocks();
    if (!error_) welcome();
    for (run_ = 0; run_ < execution_.runs && !error_; ++run_) {
      // Every run starts with empty times, so that no times of an earlier run remain.
      times_ = empty_times(flat_);
      done_.assign(index(flat_.rank_count), {});
      prepare();
      gather(Phase::preparing);
      compare_clocks();
      if (!error_) start();
      gather(Phase::running);
      compare_clocks();
      if (error_) break;
      runs.push_back(executed());
      if (execution_.progress) execution_.progress(runs.size());
    }
    end();
    if (error_) return tl::unexpected(*std::move(error_));
    return runs;
  }

 private:
  // --- phases -------------------------------------------------------------------------------------

  /// Handles incoming messages until every rank has sent the message of the phase, or the run has failed.
  void gather(Phase phase) {
    if (error_) return;
    phase_ = phase;
    attendance_.await_all();
    // Ranks on this host share the coordinator's clock. They are not asked for the time, so they count as
    // arrived.
    for (std::int32_t rank = 0; phase == Phase::comparing && rank < flat_.rank_count; ++rank)
      if (!clocks_.is_elsewhere(rank)) attendance_.arrive(rank);
    const auto until = steady_clock::now() + judge_.patience_of(phase);
    const nanoseconds period = report_period(execution_);
    while (!error_ && !attendance_.is_complete()) {
      const auto begin = steady_clock::now();
      loop_.run_until(begin + period);
      // The workers need a regular message, so that they can distinguish a dead coordinator from one that
      // only waits.
      broadcast(Alive{});
      if (error_) return;
      error_ = judge_.judge({.phase = phase,
                             .run = run_,
                             .until = until,
                             .took = steady_clock::now() - begin,
                             .strangers = loop_.strangers()});
    }
  }

  /// Records that the rank has sent the message of the present phase. Makes gather() return if it was the
  /// last rank.
  void arrive(std::int32_t rank) {
    attendance_.arrive(rank);
    if (attendance_.is_complete()) loop_.interrupt();
  }

  /// Records which ranks run on other hosts. Rank 0 runs on this host.
  void find_other_hosts() {
    const std::string& here = attendance_.at(0).hello.boot_id;
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank)
      if (attendance_.at(rank).hello.boot_id != here) clocks_.set_elsewhere(rank);
  }

  /// Sends a series of clock questions to all ranks on other hosts, and waits for the answers.
  void compare_clocks() {
    if (error_ || !clocks_.some_elsewhere()) return;
    clocks_.begin_series();
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      if (clocks_.is_elsewhere(rank)) ask_for_time(rank);
    }
    gather(Phase::comparing);
  }

  /// Sends the rank one clock question. The next one follows after the answer, so that questions do not delay
  /// each other.
  void ask_for_time(std::int32_t rank) {
    const Ns now = host_now_ns();
    clocks_.ask(rank, now);
    tell(rank, ClockQuestion{.sent_ns = now});
  }

  void hear(std::int32_t rank, const ClockAnswer& answer) {
    const Ns now = host_now_ns();
    if (clocks_.answered(rank, {.sent_ns = answer.sent_ns, .there_ns = answer.shown_ns, .back_ns = now})) {
      arrive(rank);
    } else if (phase_ == Phase::comparing && !attendance_.at(rank).arrived) {
      ask_for_time(rank);
    }
  }

  void welcome() {
    Welcome welcome;
    for (const Peer& peer : attendance_.peers()) welcome.peers.push_back(peer.hello.data);
    broadcast(welcome);
  }

  /// Sends Prepare to all ranks. It contains the moment at which the run's clock is 0, converted to each
  /// rank's host clock.
  void prepare() {
    const Ns origin = host_now_ns();
    clocks_.begin_times(origin, execution_.time_scale);
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank)
      tell(rank, Prepare{run_, clocks_.there(rank, origin)});
  }

  void start() {
    // Go takes about half a round trip to another host. The clock error of that host is also half a round
    // trip, so it is added twice: once for the way and once for the error.
    start_ns_ = host_now_ns() + nanoseconds(kUntilStart).count() + 2 * clocks_.error_ns().value_or(0);
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      Progress& progress = progress_[index(rank)];
      progress.since_ns = start_ns_;
      progress.position = kNone;
      progress.waits_for = kNone;
      attendance_.at(rank).reported_ns = start_ns_;
      tell(rank, Go{run_, clocks_.there(rank, start_ns_)});
    }
  }

  /// Tells all connected ranks how the run ended. If a worker reports a failure before it has received End,
  /// the run still fails.
  void end() {
    phase_ = Phase::ended;
    if (error_) {
      broadcast(Verdict{*error_});
    } else {
      broadcast(End{});
    }
    // Workers close their connections when they have received the message. The coordinator waits for this
    // only for a limited time.
    const auto until = steady_clock::now() + std::min<nanoseconds>(execution_.deadline, kUntilGone);
    while (any_is_connected() && steady_clock::now() < until) {
      loop_.run_until(std::min(until, steady_clock::now() + report_period(execution_)));
    }
  }

  bool any_is_connected() const {
    return !refused_.empty() || attendance_.any_heard_since(host_now_ns() - execution_.deadline.count());
  }

  void broadcast(const ControlMessage& message) {
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) tell(rank, message);
  }
  void tell(std::int32_t rank, const ControlMessage& message) {
    const Peer& peer = attendance_.at(rank);
    if (peer.connection && !peer.gone) loop_.send(*peer.connection, encoded(message));
  }

  // --- messages of workers ------------------------------------------------------------------------

  void received(ConnectionId from, const Frame& frame) {
    // This process was already refused. Messages that it sent before the refusal may still arrive and are
    // ignored.
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
    // Only a Hello assigns a rank. A process that first sends another message is not a worker.
    const auto rank = attendance_.rank_of(from);
    if (!rank) {
      loop_.close(from);
      return;
    }
    attendance_.at(*rank).heard_ns = host_now_ns();
    std::visit([&](const auto& told) { hear(*rank, told); }, *message);
  }

  void join(ConnectionId from, const Hello& hello) {
    if (!error_) {
      const auto why_not = attendance_.join(from, hello);
      if (why_not) fail_at(hello.rank, *why_not);
    }
    if (error_) {
      refuse(from);
    } else if (attendance_.is_complete()) {
      loop_.interrupt();
    }
  }

  /// Sends the error of the run to a process that connected but cannot take part.
  void refuse(ConnectionId from) {
    refused_.insert(from);
    loop_.send(from, encoded(Verdict{*error_}));
  }

  /// Returns true if a report of the rank may name this position. It may be in the rank's list, or be the
  /// start (kNone) or the end of the list.
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
    // Time before the start of the run does not count. Otherwise a long preparation would make the rank look
    // late.
    progress.since_ns = std::max(clocks_.here(rank, report.since_ns), start_ns_);
    progress.position = report.position;
    progress.waits_for = report.waits_for;
    attendance_.at(rank).reported_ns = clocks_.here(rank, report.at_ns);
  }

  void hear(std::int32_t rank, const Ready& ready) {
    if (phase_ == Phase::preparing && ready.run == run_) arrive(rank);
  }

  void hear(std::int32_t rank, const Done& done) {
    // The message is too late: it belongs to a run that has already ended, for example by a failure.
    if (phase_ != Phase::running || done.run != run_) return;
    if (const auto fault = fault_of(flat_, rank, done)) {
      // A rank sends Done at the end of its list. The error must name this end, so it replaces the position
      // that the rank reported last.
      progress_[index(rank)].position = flat_.rank_begin[index(rank) + 1];
      progress_[index(rank)].waits_for = kNone;
      fail_at(rank, *fault);
      return;
    }
    done_[index(rank)] = done;
    arrive(rank);
  }

  /// Returns the timeline and the accounts of all ranks. All times are converted to the clock of this
  /// process.
  ExecutedRun executed() {
    ExecutedRun run;
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      Done& done = done_[index(rank)];
      for (std::vector<Ns>* times : {&done.start, &done.end, &done.message_start, &done.message_end})
        clocks_.align(rank, *times);
      put_among(times_, flat_, rank, done);
      run.accounts.push_back(done.account);
    }
    run.timeline = recorded_timeline(flat_, execution_.program.placement, times_);
    run.clock_error_ns = clocks_.error_ns();
    return run;
  }

  void hear(std::int32_t rank, const Failed& failed) {
    hear(rank, failed.standing);
    fail_at(rank, failed.what);
  }

  /// Ignores all messages that have no handler of their own: a second Hello, and messages that only a
  /// coordinator may send.
  template <typename Other>
  void hear(std::int32_t, const Other&) {}

  void closed(ConnectionId connection) {
    refused_.erase(connection);
    loop_.interrupt();
    const auto rank = attendance_.rank_of(connection);
    if (!rank) return;
    attendance_.at(*rank).gone = true;
    // In the last phase, workers close their connections without being at fault.
    if (phase_ != Phase::ended) judge_.lose(*rank);
  }

  /// Records the failure of a rank if it is the first failure. Later failures are usually its consequences.
  void fail_at(std::int32_t rank, const std::string& what) {
    if (!error_) error_ = judge_.failure_of(rank, what, phase_);
    loop_.interrupt();
  }

  const ProcessExecution& execution_;
  const FlatProgram& flat_;
  ProgramSizes sizes_;
  std::optional<SecretFile> secret_file_;
  std::vector<Progress> progress_;
  Attendance attendance_;
  FaultJudge judge_;
  RankClocks clocks_;
  std::set<ConnectionId> refused_;  // connections of refused processes that are still open
  Phase phase_ = Phase::joining;
  std::int32_t run_ = 0;
  Ns start_ns_ = 0;
  ProgramTimes times_;
  std::vector<Done> done_;  // the Done messages of the present run, by rank
  std::optional<ExecutionError> error_;
  // The loop is declared last, so that it is destroyed first. Its handlers use all members above.
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

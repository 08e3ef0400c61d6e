// A controlled run is a child process, so that none of its state remains. If the child hangs or dies, this is
// part of the result. The child sends its result through a pipe.

#include "tests/backend/standin/world.hpp"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/backend/standin/device_facts.hpp"

extern "C" void __gcov_dump() __attribute__((weak));

namespace standin {
namespace {

constexpr std::size_t kMostDefects = 20;  // later defects are usually consequences of the first
constexpr Ns kStart = 1'000'000'000;      // the virtual time at the start

World* current = nullptr;
int answer_pipe = -1;

void write_all(const std::string& text) {
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t now = ::write(answer_pipe, text.data() + written, text.size() - written);
    if (now < 0 && errno != EINTR) return;
    if (now > 0) written += static_cast<std::size_t>(now);
  }
}

std::string read_all(int pipe_end) {
  std::string text;
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t got = ::read(pipe_end, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

/// Binds the process to one processor. Only one thread runs at a time, and switching threads is twice as fast
/// on the same processor.
void stay_on_this_processor() {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  CPU_SET(sched_getcpu(), &processors);
  sched_setaffinity(0, sizeof processors, &processors);
}

/// Runs the child and does not return, so that no destructors run after the end of the run. Leaks are counted
/// before.
[[noreturn]] void run_in_child(const Setting& setting, const std::function<std::string()>& run) {
  stay_on_this_processor();
  World all(setting);
  current = &all;
  scheduler = &all.scheduler;
  std::string answer;
  try {
    answer = run();
  } catch (const std::exception& error) {
    answer = fmt::format("threw {}", error.what());
  }
  all.memory.report_leaks();
  all.devices.report_leaks();
  all.nccl.report_leaks();
  all.finish(std::move(answer));
}

/// Returns a text about a child that ended without a result.
std::string death_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  return fmt::format("status {} without an answer", WEXITSTATUS(status));
}

Verdict verdict_of(const std::string& said, int status) {
  Verdict verdict;
  const auto json = nlohmann::json::parse(said, nullptr, false);
  if (json.is_discarded()) {
    verdict.death = death_of(status);
    return verdict;
  }
  verdict.answer = json.at("answer");
  verdict.defects = json.at("defects");
  verdict.trace = json.at("trace");
  verdict.launch_order = json.at("launch_order");
  verdict.calls = json.at("calls");
  verdict.operations = json.at("operations");
  verdict.switches = json.at("switches");
  verdict.seconds = json.at("seconds");
  verdict.timed_bytes = json.at("timed_bytes").get<std::map<std::string, std::uint64_t>>();
  verdict.copied_bytes = json.at("copied_bytes");
  verdict.fault_met = json.at("fault_met");
  verdict.blocked_launches = json.at("blocked_launches");
  verdict.timed_waits = json.at("timed_waits");
  verdict.timed_allocations = json.at("timed_allocations");
  return verdict;
}

}  // namespace

World& world() {
  if (current == nullptr) {
    std::fputs("stand-in: a call outside a controlled run\n", stderr);
    std::abort();
  }
  return *current;
}

World::World(const Setting& asked)
    : setting(asked), scheduler(asked.seed, static_cast<Ns>(asked.most_seconds * 1e9)) {}

/// Records a defect. An equal defect is recorded only once, because a race in a loop would hide all others.
void World::defect(std::string what) {
  for (const std::string& known : defects_) {
    if (known == what) return;
  }
  if (defects_.size() < kMostDefects) defects_.push_back(std::move(what));
}

void World::hang(const char* why) {
  defects_.insert(defects_.begin(), fmt::format("hang: {} at {:.6f} s{}{}{}", why,
                                                static_cast<double>(scheduler.now() - kStart) * 1e-9,
                                                scheduler.standings(), devices.heads(), nccl.launches()));
  finish("hang");
}

void World::finish(std::string answer) {
  const nlohmann::json json = {{"answer", std::move(answer)},
                               {"defects", defects_},
                               {"trace", trace_},
                               {"launch_order", nccl.launch_digest()},
                               {"calls", calls_},
                               {"operations", devices.ended()},
                               {"switches", scheduler.switches()},
                               {"seconds", static_cast<double>(scheduler.now() - kStart) * 1e-9},
                               {"copied_bytes", copied_bytes},
                               {"timed_bytes", timed_bytes},
                               {"fault_met", fault_met_},
                               {"blocked_launches", blocked_launches},
                               {"timed_waits", timed_waits},
                               {"timed_allocations", timed_allocations}};
  write_all(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  if (__gcov_dump != nullptr) __gcov_dump();
  _exit(0);
}

bool World::note_call(const char* name) {
  ++calls_;
  // FNV-1a over name, thread and time. Two runs with equal digests have made the same calls in the same
  // order.
  const auto mix = [this](std::uint64_t number) { trace_ = (trace_ ^ number) * 0x100000001b3; };
  for (const char* letter = name; *letter != '\0'; ++letter) mix(static_cast<unsigned char>(*letter));
  mix(this_thread->slot);
  mix(static_cast<std::uint64_t>(scheduler.now()));
  return is_fault(Fault::Kind::once, calls_) || is_fault(Fault::Kind::sticky, calls_);
}

bool World::is_fault(Fault::Kind kind, std::uint64_t number) {
  const bool is = setting.fault.kind == kind && setting.fault.n == number;
  fault_met_ |= is;
  return is;
}

void World::note_allocation() {
  if (this_thread->timed) ++timed_allocations;
}

std::vector<int> World::all_sms() const {
  std::vector<int> sms(static_cast<std::size_t>(setting.sms));
  std::iota(sms.begin(), sms.end(), 0);
  return sms;
}

bool breaks_on_purpose(const char* mechanism) { return world().has_mutant(mechanism); }

void begin_child() {
  world().is_forked = world().is_started;
  world().scheduler.forget_the_others();
}

Verdict controlled(const Setting& setting, const std::function<std::string()>& run) {
  static const bool said = std::puts(kFirstLine) >= 0;
  static_cast<void>(said);
  std::fflush(nullptr);
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return {.death = "no pipe"};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    answer_pipe = ends[1];
    run_in_child(setting, run);
  }
  close(ends[1]);
  const std::string answer = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return verdict_of(answer, status);
}

std::string to_text(const Verdict& verdict) {
  std::string text =
      fmt::format("{} calls, {} operations, {} switches, {:.6f} virtual s; answer: {}", verdict.calls,
                  verdict.operations, verdict.switches, verdict.seconds, verdict.answer);
  if (verdict.timed_waits > 0) text += fmt::format("\n  {} waits inside the timed part", verdict.timed_waits);
  if (verdict.timed_allocations > 0)
    text += fmt::format("\n  {} made inside the timed part", verdict.timed_allocations);
  if (!verdict.death.empty()) text += "\n  died: " + verdict.death;
  for (const std::string& defect : verdict.defects) text += "\n  " + defect;
  return text;
}

}  // namespace standin

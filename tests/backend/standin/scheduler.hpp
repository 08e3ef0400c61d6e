#pragma once
// Host threads under a seed, one at a time, in virtual time.

#include <pthread.h>
#include <semaphore.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "tests/backend/standin/vector_clock.hpp"

namespace standin {

using Ns = std::int64_t;

struct HostThread {
  enum class State : std::uint8_t { ready, running, asleep, blocked, polling, ended };

  std::size_t slot = 0;  // of its clock
  State state = State::ready;
  Ns wakes_at = -1;  // asleep, or blocked with a limit
  const void* waits_on = nullptr;
  const char* why = "";  // it does not run, for reports
  bool timed_out = false;
  bool pays = false;          // asleep for the cost of a call: its waking is no news
  bool told_not_yet = false;  // by its last question,
  const void* told_about = nullptr;
  std::uint64_t told_at = 0;  // when so many things had happened
  Ns leap = 0;
  bool timed = false;  // it was started inside execute()
  VectorClock clock;
  int process = 0;  // number of its process among those that share its device
  int device = 0;   // the current one, and CUDA's last error
  int last_error = 0;

  sem_t turn{};
  pthread_t real{};
  void* (*function)(void*) = nullptr;
  void* argument = nullptr;
  bool joined = false;
};

/// Null in threads that are not controlled.
extern thread_local HostThread* this_thread;

class Scheduler {
 public:
  /// The calling thread becomes the first.
  Scheduler(std::uint64_t seed, Ns most);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  Ns now() const { return now_; }
  std::uint64_t random(std::uint64_t below);
  std::uint64_t switches() const { return switches_; }
  std::size_t new_slot() { return slots_++; }

  // --- by the running thread
  void spend(Ns cost);
  void read_clock() { now_ += 20; }
  void sleep_until(Ns moment);
  /// As sleep_until(), but a thread that was just told "not yet" is set aside until something happens.
  void nap(Ns duration);
  /// It was told "not yet" about `what`; asks_again() of the same before it has slept sets it aside, too.
  void told_not_yet(const void* what);
  void asks_again(const void* what);
  void answered();
  /// Until `condition` holds, which nothing but calls and operations change.
  void wait_until(const char* why, const std::function<bool()>& condition);
  void maybe_let_others_run();
  /// Each thread's wait, for a hang.
  std::string standings() const;

  // --- by anybody
  void at(Ns moment, std::function<void()> event);
  /// Something happened: those set aside may look again.
  void news();

  // --- threads
  int create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*), void* argument);
  int join(pthread_t thread, void** result);
  /// After a fork: only the running thread is here.
  void forget_the_others() { living_ = {this_thread}; }
  void lock(const void* mutex);
  bool try_lock(const void* mutex);
  void unlock(const void* mutex);
  /// False: the limit passed (limit < 0: none).
  bool wait(const void* condition, const void* mutex, Ns limit);
  void notify(const void* condition, bool all);
  void futex_wait(const int* word, int expected);
  int futex_wake(const int* word, int most);
  /// An atomic is written, or read: an edge.
  void release(const void* atomic);
  void acquire(const void* atomic);

 private:
  struct Due {
    Ns moment;
    std::uint64_t tie;
    std::uint64_t number;
    std::function<void()> event;
  };
  struct Later {
    bool operator()(const Due& a, const Due& b) const {
      return std::tie(a.moment, a.tie, a.number) > std::tie(b.moment, b.tie, b.number);
    }
  };
  struct Mutex {
    const HostThread* owner = nullptr;
    VectorClock clock;
  };

  /// What each controlled thread runs first.
  static void* entry(void* thread);
  /// Lets the chosen one run, which may be the caller; returns when the caller's turn has come again. The
  /// caller has said before by its state what it waits for.
  void hand_over();
  /// One that is ready, after as much virtual time as that takes.
  HostThread* choose();
  bool advance();
  bool leap();
  /// `most` of those that are blocked on it, which ones the seed says.
  void wake_those_on(const void* object, std::size_t most);
  void wake(HostThread& thread);
  /// limit: until when, < 0: for as long as it takes.
  void block_on(const void* object, const char* why, Ns limit);
  /// Until news().
  void set_aside();

  Ns now_ = 1'000'000'000;
  Ns most_;  // beyond it the run hangs
  std::uint64_t random_;
  std::uint64_t happened_ = 0;  // how often there were news
  std::uint64_t switches_ = 0;
  std::uint64_t numbers_ = 0;
  std::size_t slots_ = 0;
  std::vector<std::unique_ptr<HostThread>> all_;
  std::vector<HostThread*> living_;
  std::priority_queue<Due, std::vector<Due>, Later> due_;
  std::unordered_map<const void*, Mutex> mutexes_;
  std::unordered_map<const void*, VectorClock> clocks_;  // of conditions, futexes and atomics
};

extern Scheduler* scheduler;

}  // namespace standin

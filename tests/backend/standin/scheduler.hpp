#pragma once
// A scheduler that runs host threads one at a time in virtual time. A seed determines their order.

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

  std::size_t slot = 0;  // the slot of the thread's clock
  State state = State::ready;
  Ns wakes_at = -1;  // if the thread sleeps, or is blocked with a time limit
  const void* waits_on = nullptr;
  const char* why = "";  // the reason why the thread does not run, for reports
  bool timed_out = false;
  bool pays = false;          // true if it sleeps for the cost of a call; its waking is not a change of state
  bool told_not_yet = false;  // true if the answer to its last poll was "not yet"
  const void* told_about = nullptr;
  std::uint64_t told_at = 0;  // the value of happened_ at that poll
  Ns leap = 0;
  bool timed = false;  // true if the thread was started inside execute()
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

/// The running thread. Null in threads that are not controlled.
extern thread_local HostThread* this_thread;

class Scheduler {
 public:
  /// Makes the calling thread the first controlled thread.
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
  /// Like sleep_until(), but after the answer "not yet" the thread is suspended until some state changes.
  void nap(Ns duration);
  /// Records that a poll of `what` returned "not yet". If the thread polls `what` again without sleeping,
  /// asks_again() also suspends it.
  void told_not_yet(const void* what);
  void asks_again(const void* what);
  void answered();
  /// Waits until `condition` returns true. Only calls and operations may change its result.
  void wait_until(const char* why, const std::function<bool()>& condition);
  void maybe_let_others_run();
  /// Returns a text with the wait of each thread, for the report of a hang.
  std::string standings() const;

  // --- by anybody
  void at(Ns moment, std::function<void()> event);
  /// Records a change of state. Suspended threads may poll again.
  void news();

  // --- threads
  int create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*), void* argument);
  int join(pthread_t thread, void** result);
  /// Must be called after a fork, because only the running thread exists in the child.
  void forget_the_others() { living_ = {this_thread}; }
  void lock(const void* mutex);
  bool try_lock(const void* mutex);
  void unlock(const void* mutex);
  /// Waits for the condition. Returns false if the limit has passed. A negative limit means no limit.
  bool wait(const void* condition, const void* mutex, Ns limit);
  void notify(const void* condition, bool all);
  void futex_wait(const int* word, int expected);
  int futex_wake(const int* word, int most);
  /// release() and acquire() record a write and a read of an atomic, which orders threads.
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

  /// The function that each controlled thread runs first.
  static void* entry(void* thread);
  /// Lets the chosen thread run, which may be the caller. Returns when the caller is chosen again. Before the
  /// call, the caller must store in its state the reason for which it waits.
  void hand_over();
  /// Returns a thread that is ready. If none is ready, it first advances the virtual time.
  HostThread* choose();
  bool advance();
  bool leap();
  /// Wakes at most `most` of the threads that are blocked on `object`. The seed chooses them.
  void wake_those_on(const void* object, std::size_t most);
  void wake(HostThread& thread);
  /// Blocks the calling thread on `object` until `limit`. A negative limit means no limit.
  void block_on(const void* object, const char* why, Ns limit);
  /// Suspends the calling thread until news() is called.
  void set_aside();

  Ns now_ = 1'000'000'000;
  Ns most_;  // a run that takes longer counts as a hang
  std::uint64_t random_;
  std::uint64_t happened_ = 0;  // the number of calls of news()
  std::uint64_t switches_ = 0;
  std::uint64_t numbers_ = 0;
  std::size_t slots_ = 0;
  std::vector<std::unique_ptr<HostThread>> all_;
  std::vector<HostThread*> living_;
  std::priority_queue<Due, std::vector<Due>, Later> due_;
  std::unordered_map<const void*, Mutex> mutexes_;
  std::unordered_map<const void*, VectorClock> clocks_;  // the clocks of conditions, futexes and atomics
};

extern Scheduler* scheduler;

}  // namespace standin

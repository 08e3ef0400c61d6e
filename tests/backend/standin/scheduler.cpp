// Only one thread runs at a time. At each call that could let another thread run, the seed chooses the next
// thread. Time increases only by assumed costs. If no thread can run, time advances to the next event:
//
//   ready?  one of them, by the seed   ->   due?  leap there   ->   polls alone?  leap, longer each time
//                                                              ->   nobody:  a hang, with each thread's wait
//
// If a thread polled, got the answer "not yet", and sleeps or polls again, it is suspended until some state
// changes. Otherwise nearly the whole simulation would consist of such naps.

#include "tests/backend/standin/scheduler.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "tests/backend/standin/world.hpp"

namespace standin {

thread_local HostThread* this_thread = nullptr;
Scheduler* scheduler = nullptr;

namespace {

using State = HostThread::State;

/// The first step in time is short, because a deadline of the product may be near. Each step is twice as long
/// as the previous one. A deadline of a minute is reached after about seventy steps.
constexpr Ns kFirstLeap = 1'000'000;
constexpr Ns kLongestLeap = 1'000'000'000;

template <typename Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void take_turn(HostThread& thread) {
  while (sem_wait(&thread.turn) != 0) continue;
}

}  // namespace

Scheduler::Scheduler(std::uint64_t seed, Ns most) : most_(most), random_(seed * 7919 + 1) {
  auto first = std::make_unique<HostThread>();
  first->slot = new_slot();
  first->state = State::running;
  sem_init(&first->turn, 0, 0);
  first->clock.tick(first->slot);
  this_thread = first.get();
  living_.push_back(first.get());
  all_.push_back(std::move(first));
}

/// SplitMix64.
std::uint64_t Scheduler::random(std::uint64_t below) {
  random_ += 0x9E3779B97F4A7C15ULL;
  std::uint64_t bits = random_;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBULL;
  bits ^= bits >> 31;
  return below == 0 ? bits : bits % below;
}

// --- choosing ---------------------------------------------------------------------------------------------

void Scheduler::hand_over() {
  HostThread& self = *this_thread;
  HostThread* next = choose();
  next->state = State::running;
  if (next == &self) return;
  ++switches_;
  const bool ended = self.state == State::ended;
  sem_post(&next->turn);
  if (!ended) take_turn(self);
}

HostThread* Scheduler::choose() {
  for (;;) {
    world().devices.start_what_can();
    std::vector<HostThread*> ready;
    for (HostThread* thread : living_) {
      if (thread->state == State::ready) ready.push_back(thread);
    }
    if (!ready.empty()) return ready[random(ready.size())];
    if (now_ > most_) world().hang("far beyond every deadline");
    if (!advance() && !leap()) world().hang("nobody can run");
  }
}

/// Advances time to the next event: the end of an operation, or the end of a sleep. Returns false if there is
/// none.
bool Scheduler::advance() {
  HostThread* sleeper = nullptr;
  for (HostThread* thread : living_) {
    const bool sleeps = thread->state == State::asleep || thread->state == State::blocked;
    if (sleeps && thread->wakes_at >= 0 && (sleeper == nullptr || thread->wakes_at < sleeper->wakes_at)) {
      sleeper = thread;
    }
  }
  if (!due_.empty() && (sleeper == nullptr || due_.top().moment <= sleeper->wakes_at)) {
    const Due next = due_.top();
    due_.pop();
    now_ = std::max(now_, next.moment);
    next.event();
    news();
    return true;
  }
  if (sleeper == nullptr) return false;
  now_ = std::max(now_, sleeper->wakes_at);
  sleeper->timed_out = sleeper->state == State::blocked;
  const bool pays = sleeper->pays;
  wake(*sleeper);
  if (!pays) news();
  return true;
}

/// Advances time for threads that poll, so that their deadlines pass. Returns false if no thread polls.
bool Scheduler::leap() {
  Ns step = 0;
  for (HostThread* thread : living_) {
    if (thread->state != State::polling) continue;
    thread->leap = std::clamp(2 * thread->leap, kFirstLeap, kLongestLeap);
    step = step == 0 ? thread->leap : std::min(step, thread->leap);
  }
  if (step == 0) return false;
  now_ += step;
  for (HostThread* thread : living_) {
    if (thread->state == State::polling) thread->state = State::ready;
  }
  return true;
}

void Scheduler::wake(HostThread& thread) {
  thread.state = State::ready;
  thread.wakes_at = -1;
  thread.waits_on = nullptr;
  thread.pays = false;
}

void Scheduler::news() {
  ++happened_;
  for (HostThread* thread : living_) {
    if (thread->state != State::polling) continue;
    thread->leap = 0;
    thread->state = State::ready;
  }
}

void Scheduler::at(Ns moment, std::function<void()> event) {
  due_.push({moment, random(0), numbers_++, std::move(event)});
}

// --- the running thread -----------------------------------------------------------------------------------

/// Lets time pass while other threads run. The end of this time does not count as a change of state.
void Scheduler::spend(Ns cost) {
  this_thread->pays = true;
  this_thread->state = State::asleep;
  this_thread->wakes_at = now_ + cost;
  this_thread->why = "in a call";
  hand_over();
}

void Scheduler::sleep_until(Ns moment) {
  this_thread->state = State::asleep;
  this_thread->wakes_at = moment;
  this_thread->why = "asleep";
  hand_over();
}

void Scheduler::set_aside() {
  if (this_thread->timed) ++world().timed_waits;
  this_thread->told_not_yet = false;
  this_thread->state = State::polling;
  this_thread->why = "asks again and again";
  hand_over();
}

void Scheduler::nap(Ns duration) {
  const bool polls = std::exchange(this_thread->told_not_yet, false);
  if (polls && this_thread->told_at == happened_) {
    set_aside();
  } else {
    if (polls && this_thread->timed) ++world().timed_waits;
    sleep_until(now_ + duration);
  }
}

void Scheduler::told_not_yet(const void* what) {
  this_thread->told_about = what;
  this_thread->told_not_yet = true;
  this_thread->told_at = happened_;
}

void Scheduler::asks_again(const void* what) {
  if (this_thread->told_not_yet && this_thread->told_about == what && this_thread->told_at == happened_)
    set_aside();
}

void Scheduler::answered() { this_thread->told_not_yet = false; }

void Scheduler::wait_until(const char* why, const std::function<bool()>& condition) {
  while (!condition()) {
    this_thread->state = State::polling;
    this_thread->why = why;
    hand_over();
  }
}

/// Lets other threads run at a quarter of the calls, which the seed chooses. So a thread may also run for
/// long while the others wait.
void Scheduler::maybe_let_others_run() {
  if (random(4) != 0) return;
  this_thread->state = State::ready;
  hand_over();
}

std::string Scheduler::standings() const {
  std::string text;
  for (const HostThread* thread : living_) {
    text += fmt::format("\n  host thread {} {}", thread->slot, thread->why);
  }
  return text;
}

// --- threads ----------------------------------------------------------------------------------------------

void* Scheduler::entry(void* argument) {
  auto& thread = *static_cast<HostThread*>(argument);
  this_thread = &thread;
  take_turn(thread);
  void* result = thread.function(thread.argument);
  thread.state = State::ended;
  std::erase(scheduler->living_, &thread);
  scheduler->wake_those_on(&thread, SIZE_MAX);
  scheduler->news();
  scheduler->hand_over();
  this_thread = nullptr;  // later calls by the C library are not controlled
  return result;
}

int Scheduler::create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*),
                      void* argument) {
  auto made = std::make_unique<HostThread>();
  HostThread& child = *made;
  child.slot = new_slot();
  child.function = function;
  child.argument = argument;
  child.timed = world().is_timed;
  child.process = this_thread->process;
  child.clock = this_thread->clock;
  child.clock.tick(child.slot);
  this_thread->clock.tick(this_thread->slot);
  sem_init(&child.turn, 0, 0);
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  const int error = real<Create>("pthread_create")(&child.real, attributes, entry, &child);
  if (error != 0) return error;
  *thread = child.real;
  living_.push_back(&child);
  all_.push_back(std::move(made));
  maybe_let_others_run();
  return 0;
}

int Scheduler::join(pthread_t thread, void** result) {
  HostThread* other = nullptr;
  for (const auto& known : all_) {
    if (known->function != nullptr && !known->joined && pthread_equal(known->real, thread) != 0)
      other = known.get();
  }
  if (other == nullptr) return ESRCH;
  while (other->state != State::ended) block_on(other, "joins a thread", -1);
  other->joined = true;
  this_thread->clock.join(other->clock);
  return real<int (*)(pthread_t, void**)>("pthread_join")(thread, result);
}

void Scheduler::block_on(const void* object, const char* why, Ns limit) {
  HostThread& self = *this_thread;
  self.state = State::blocked;
  self.waits_on = object;
  self.why = why;
  self.wakes_at = limit;
  self.timed_out = false;
  hand_over();
}

void Scheduler::wake_those_on(const void* object, std::size_t most) {
  std::vector<HostThread*> waiting;
  for (HostThread* thread : living_) {
    if (thread->state == State::blocked && thread->waits_on == object) waiting.push_back(thread);
  }
  for (; most > 0 && !waiting.empty(); --most) {
    const auto chosen = waiting.begin() + static_cast<std::ptrdiff_t>(random(waiting.size()));
    wake(**chosen);
    waiting.erase(chosen);
  }
}

void Scheduler::lock(const void* mutex) {
  maybe_let_others_run();
  while (mutexes_[mutex].owner != nullptr) block_on(mutex, "waits for a mutex", -1);
  Mutex& taken = mutexes_[mutex];
  taken.owner = this_thread;
  this_thread->clock.join(taken.clock);
}

bool Scheduler::try_lock(const void* mutex) {
  if (mutexes_[mutex].owner != nullptr) return false;
  lock(mutex);
  return true;
}

/// Wakes all threads that wait for the mutex, and they try again. So the seed, and not their order, decides
/// which thread is next.
void Scheduler::unlock(const void* mutex) {
  Mutex& held = mutexes_[mutex];
  held.owner = nullptr;
  held.clock.join(this_thread->clock);
  this_thread->clock.tick(this_thread->slot);
  wake_those_on(mutex, SIZE_MAX);
  news();
}

bool Scheduler::wait(const void* condition, const void* mutex, Ns limit) {
  unlock(mutex);
  block_on(condition, "waits on a condition", limit);
  const bool notified = !this_thread->timed_out;
  if (notified) acquire(condition);
  lock(mutex);
  return notified;
}

void Scheduler::notify(const void* condition, bool all) {
  release(condition);
  wake_those_on(condition, all ? SIZE_MAX : 1);
  news();
  maybe_let_others_run();
}

void Scheduler::futex_wait(const int* word, int expected) {
  if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != expected) return;
  block_on(word, "waits on an atomic", -1);
  acquire(word);
}

int Scheduler::futex_wake(const int* word, int most) {
  release(word);
  wake_those_on(word, static_cast<std::size_t>(most));
  news();
  return 0;
}

void Scheduler::release(const void* atomic) {
  clocks_[atomic].join(this_thread->clock);
  this_thread->clock.tick(this_thread->slot);
}

void Scheduler::acquire(const void* atomic) {
  const auto known = clocks_.find(atomic);
  if (known != clocks_.end()) this_thread->clock.join(known->second);
}

}  // namespace standin

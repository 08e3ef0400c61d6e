// Replaces functions of the C library for threads and time. Calls by controlled threads go to the scheduler,
// and all other calls go to the real functions. Calls by the standard library also reach these functions,
// because the program exports them.

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>

#include "tests/backend/standin/scheduler.hpp"
#include "tests/backend/standin/world.hpp"

namespace {

using standin::Ns;
using standin::scheduler;

template <typename Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

/// Returns the real function. An older version of the condition functions has the same name, so the version
/// is stated.
template <typename Function>
Function real_of_condition(const char* name) {
  void* found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
  return reinterpret_cast<Function>(found != nullptr ? found : dlsym(RTLD_NEXT, name));
}

bool is_controlled() { return standin::this_thread != nullptr; }

Ns in_ns(const timespec& time) { return static_cast<Ns>(time.tv_sec) * 1'000'000'000 + time.tv_nsec; }

using OnMutex = int (*)(pthread_mutex_t*);
using OnCondition = int (*)(pthread_cond_t*);

/// Time limits of controlled threads are treated as times of the monotonic clock, because only this clock is
/// virtual.
int timed_wait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  return scheduler->wait(condition, mutex, in_ns(*until)) ? 0 : ETIMEDOUT;
}

long real_syscall(long number, long a, long b, long c, long d, long e, long f) {
  static const auto function = real<long (*)(long, ...)>("syscall");
  return function(number, a, b, c, d, e, f);
}

}  // namespace

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static const auto function = real<OnMutex>("pthread_mutex_lock");
  if (!is_controlled()) return function(mutex);
  scheduler->lock(mutex);
  return 0;
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  static const auto function = real<OnMutex>("pthread_mutex_trylock");
  if (!is_controlled()) return function(mutex);
  return scheduler->try_lock(mutex) ? 0 : EBUSY;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  static const auto function = real<OnMutex>("pthread_mutex_unlock");
  if (!is_controlled()) return function(mutex);
  scheduler->unlock(mutex);
  return 0;
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  static const auto function =
      real_of_condition<int (*)(pthread_cond_t*, pthread_mutex_t*)>("pthread_cond_wait");
  if (!is_controlled()) return function(condition, mutex);
  scheduler->wait(condition, mutex, -1);
  return 0;
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  using Function = int (*)(pthread_cond_t*, pthread_mutex_t*, const timespec*);
  static const auto function = real_of_condition<Function>("pthread_cond_timedwait");
  return is_controlled() ? timed_wait(condition, mutex, until) : function(condition, mutex, until);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  using Function = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
  static const auto function = real<Function>("pthread_cond_clockwait");
  return is_controlled() ? timed_wait(condition, mutex, until) : function(condition, mutex, clock, until);
}

int pthread_cond_signal(pthread_cond_t* condition) {
  static const auto function = real_of_condition<OnCondition>("pthread_cond_signal");
  if (!is_controlled()) return function(condition);
  scheduler->notify(condition, false);
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) {
  static const auto function = real_of_condition<OnCondition>("pthread_cond_broadcast");
  if (!is_controlled()) return function(condition);
  scheduler->notify(condition, true);
  return 0;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) {
  using Function = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto function = real<Function>("pthread_create");
  if (!is_controlled()) return function(thread, attributes, start, argument);
  return scheduler->create(thread, attributes, start, argument);
}

int pthread_join(pthread_t thread, void** result) {
  static const auto function = real<int (*)(pthread_t, void**)>("pthread_join");
  return is_controlled() ? scheduler->join(thread, result) : function(thread, result);
}

/// Tells the scheduler in the child that only the calling thread exists there.
pid_t fork() {
  static const auto function = real<pid_t (*)()>("fork");
  const pid_t child = function();
  if (child == 0 && is_controlled()) standin::begin_child();
  return child;
}

int sched_yield() {
  static const auto function = real<int (*)()>("sched_yield");
  if (!is_controlled()) return function();
  scheduler->spend(100);
  return 0;
}

int nanosleep(const timespec* duration, timespec* rest) {
  static const auto function = real<int (*)(const timespec*, timespec*)>("nanosleep");
  if (!is_controlled()) return function(duration, rest);
  scheduler->nap(in_ns(*duration));
  return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* rest) {
  using Function = int (*)(clockid_t, int, const timespec*, timespec*);
  static const auto function = real<Function>("clock_nanosleep");
  if (!is_controlled()) return function(clock, flags, time, rest);
  if ((flags & TIMER_ABSTIME) != 0) {
    scheduler->sleep_until(in_ns(*time));
  } else {
    scheduler->nap(in_ns(*time));
  }
  return 0;
}

int clock_gettime(clockid_t clock, timespec* time) {
  static const auto function = real<int (*)(clockid_t, timespec*)>("clock_gettime");
  if (!is_controlled() || clock != CLOCK_MONOTONIC) return function(clock, time);
  scheduler->read_clock();
  time->tv_sec = scheduler->now() / 1'000'000'000;
  time->tv_nsec = scheduler->now() % 1'000'000'000;
  return 0;
}

/// std::latch and waits on atomics call this function.
long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  const long a = va_arg(list, long);
  const long b = va_arg(list, long);
  const long c = va_arg(list, long);
  const long d = va_arg(list, long);
  const long e = va_arg(list, long);
  const long f = va_arg(list, long);
  va_end(list);
  if (!is_controlled() || number != SYS_futex) return real_syscall(number, a, b, c, d, e, f);
  const auto* word = reinterpret_cast<const int*>(a);
  const long operation = b & FUTEX_CMD_MASK;
  if (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET) {
    scheduler->futex_wait(word, static_cast<int>(c));
    return 0;
  }
  if (operation == FUTEX_WAKE) return scheduler->futex_wake(word, static_cast<int>(c));
  return real_syscall(number, a, b, c, d, e, f);
}

}  // extern "C"

#pragma once
// A sweep that an interrupt ends at once. Used by sweep_command.cpp and shared_sweep.cpp.

#include <chrono>
#include <cstddef>
#include <future>
#include <map>
#include <memory>

#include "cli/interrupt.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/runs/sweep.hpp"

namespace penstock {

inline constexpr std::chrono::milliseconds kLookForInterrupt{20};  ///< how soon one is seen

/// The points of a grid, made on other threads while this one looks after something else.
class SweepUnderWay {
 public:
  /// Begins. The grid's `finished` and `progress` are called from other threads, until left_behind();
  /// `stopped` is not.
  SweepUnderWay(const Scenario& scenario, SweepGrid grid);

  /// Not after whole().
  bool has_ended_within(std::chrono::milliseconds patience) const;
  /// Waits for the end; once. Throws what a thread has thrown.
  Sweep whole();
  /// No point begins any more.
  void stop();
  /// The points that are done by now, known ones not among them. Those that are still under way are left
  /// behind on their threads, so the program has to end without an exit(); nothing of the grid is called any
  /// more. Also after whole().
  std::map<std::size_t, SweepPoint> left_behind();

 private:
  struct DonePoints;
  std::shared_ptr<DonePoints> done_;
  std::future<Sweep> whole_;
};

/// sweep() of the points that are known alone: the others were interrupted.
Sweep known_points(const Scenario& scenario, SweepGrid grid);

/// sweep(), to its end or to an interrupt, behind which it has the rows that are done by then. Points that
/// are still under way are left behind (SweepUnderWay), so the program has to end by the interrupt.
Sweep sweep_until(const InterruptNoted& interrupt, const Scenario& scenario, SweepGrid grid);

}  // namespace penstock

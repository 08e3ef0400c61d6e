// Finds out whether a streamed walk can jump over repetitions. A cursor in nested loops has moved by whole
// repetitions if it is again at the same action of the same run. Either the run or the loop around the run
// has then advanced:
//
//   5 x (4 x {F0}, 4 x {f0})      from F1 to F2 of one repetition: 1 step of the run
//                                 from F1 of one repetition to F1 of the next: 1 step of the loop
//
// The walk may jump as long as the cursor stays before the loop's last repetition. If the walk reads ahead or
// if memory grows, the walk jumps one repetition less and runs this repetition action by action.

#include "sim/engines/repeat.hpp"

#include <cstdint>
#include <optional>

#include "schedules/ir/action_loops.hpp"

namespace penstock {
namespace {

std::optional<CursorProgress> moved(std::int32_t repetitions, std::int32_t step, std::int32_t left) {
  if (repetitions <= 0) return std::nullopt;
  return CursorProgress{.move = {}, .units = repetitions * step, .left = (left - 1) / repetitions};
}

}  // namespace

std::optional<CursorProgress> progress(const LoopCursor& before, const LoopCursor& now) {
  if (now.at_end() || before.place() != now.place()) return std::nullopt;
  const std::int32_t inner = now.inner() - before.inner();
  const std::int32_t outer = now.outer() - before.outer();
  // If both loops have advanced, the numbers of repetitions that remain in the inner loop differ. The actions
  // that follow differ, too.
  if (inner != 0 && outer != 0) return std::nullopt;
  if (inner != 0) {
    auto found = moved(inner, now.run().step, now.run().count - 1 - now.inner());
    if (found) found->move.inner = inner;
    return found;
  }
  auto found = moved(outer, now.loop().step, now.loop().count - 1 - now.outer());
  if (found) found->move.outer = outer;
  return found;
}

}  // namespace penstock

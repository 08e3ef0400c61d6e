// A cursor in loops over loops has repeated where it stands at the same action of the same run, and either
// the run or the loop around it has gone on:
//
//   5 x (4 x {F0}, 4 x {f0})      F1 F2 of one repetition: by 1 of the run, 3 are left
//                                 F1 of one and F1 of the next: by 1 of the loop
//
// It may go on like that as long as it stays before its last repetition. Whoever reads ahead, or holds more
// after every time, walks one more of those times, so that it does so there.

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
  // From one repetition of the outer loop into another, at another place of the inner one: what follows is
  // not the same, since the inner loop ends sooner or later than before.
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

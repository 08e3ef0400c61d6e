#pragma once
// Two macros for functions that run several steps in order. A step returns a tl::expected. If this value is
// an error, the enclosing function returns the error at once.
//
//   tl::expected<Experiment, Error> prepare(...) {
//     PENSTOCK_ASSIGN_OR_RETURN(Program program, generate(...));   // declares `program`, or returns
//     PENSTOCK_RETURN_IF_ERROR(validate(program));
//     ...

#include <tl/expected.hpp>
#include <utility>

#define PENSTOCK_JOINED_AGAIN(a, b) a##b
#define PENSTOCK_JOINED(a, b) PENSTOCK_JOINED_AGAIN(a, b)

/// Evaluates the expression `step`, which may fail. If it fails, returns its error from the enclosing
/// function.
#define PENSTOCK_RETURN_IF_ERROR(step)                         \
  do {                                                         \
    if (auto penstock_done = (step); !penstock_done)           \
      return tl::unexpected(std::move(penstock_done).error()); \
  } while (false)

// A declaration cannot be in parentheses: NOLINTBEGIN(bugprone-macro-parentheses)

/// Assigns the value of the expression `step` to `target`. If `step` fails, returns its error from the
/// enclosing function. `target` may be a declaration.
#define PENSTOCK_ASSIGN_OR_RETURN(target, step) \
  PENSTOCK_ASSIGN_OR_RETURN_AS(PENSTOCK_JOINED(penstock_step_, __LINE__), target, step)
#define PENSTOCK_ASSIGN_OR_RETURN_AS(made, target, step)     \
  auto made = (step);                                        \
  if (!made) return tl::unexpected(std::move(made).error()); \
  target = *std::move(made)

// NOLINTEND(bugprone-macro-parentheses)

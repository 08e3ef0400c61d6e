// Generates vocabulary parallelism (Yeung et al., arXiv 2411.05288): 1F1B in which all ranks share the output
// layer. With a large vocabulary, the output layer costs as much as many other layers, and plain 1F1B has all
// of it on the last rank. Here rank r has slice r of the vocabulary. A program with K ranks has 2K + 1
// stages:
//
//   0 .. K-1     the layers, one stage a rank, as in 1F1B
//   K .. 2K-1    the slices: stage K + r on rank r; its F and B are the passes S and T of the paper
//   2K           the loss on the last rank, which takes no time: the ranks exchange maxima and sums of logits
//
//   1f1b-vocab-1   S: logits.  T: gradients of input and weights.  The layers' B waits for T on all ranks.
//                  Edges 0>1 .. K-1>s and s>2K for each slice s.
//   1f1b-vocab-2   S: logits and the gradient of the input, rescaled later.  T: gradient of the weights.  The
//                  layers' B waits for S on all ranks. Edges K-1>s! and s>2K for each slice s, and K-1<2K!.
//
// The loss is a barrier: it starts when all ranks have run S, and T waits for it. 1f1b-vocab-1 has a second
// barrier, between T and B. While a rank waits for a barrier, it runs an F or B of another microbatch. The
// first stage therefore stores K + 2 microbatches with two barriers and K + 1 with one, as the paper says. In
// 1F1B it stores K. With 2 ranks and 3 microbatches, stages 2 and 3 are slices and stage 4 is the loss:
//
// 1f1b-vocab-1:
//
//   rank 0   0F0     2F0 0F1             2B0 2F1 0F2             2B1 2F2 0B0         2B2     0B1 0B2
//   rank 1       1F0 3F0     1F1 4F0 4B0 3B0 3F1     1F2 4F1 4B1 3B1 1B0 3F2 4F2 4B2 3B2 1B1 1B2
//
// 1f1b-vocab-2:
//
//   rank 0   0F0     2F0 0F1             2B0 2F1 0F2 0B0         2B1 2F2 0B1         2B2 0B2
//   rank 1       1F0 3F0     1F1 4F0 4B0 1B0 3B0 3F1 1F2 4F1 4B1 1B1 3B1 3F2 4F2 4B2 1B2 3B2
//
// The order is made for B = 2 F and short S and T. Times are in units of F. Rank K-1-d starts F(i) at 3i - d.
// Its pauses for S and T are after F and after B. The rank runs S in the first pause that begins after the
// last stage of layers has sent the input. That is the pause after B, or the pause after F if d mod 3 is 2.
// The slowest rank ends S 2 units after the input. T takes the first pause of the next unit or later; with
// one barrier the last rank runs B first. Tested by picture_test.cpp, conformance_test.cpp and
// vocabulary_test.cpp.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/extra_stages.hpp"

namespace penstock {

namespace {

/// The number of exchanges between all ranks that lie between the F and the B of the last stage of layers.
enum class Barriers : std::int8_t { one = 1, two = 2 };

/// Adds the stages of the slices, the stage of the loss and the edges to a program that has only the stages
/// of the layers.
void add_output_stages(Program& program, Barriers barriers) {
  const std::int32_t ranks = program.rank_count();
  const std::int32_t last = ranks - 1;
  const std::int32_t loss = 2 * ranks;
  const bool rescales_later = barriers == Barriers::one;
  for (std::int32_t stage = 0; stage < last; ++stage)
    program.edges.push_back({.from = stage, .to = stage + 1});
  for (std::int32_t slice = ranks; slice < loss; ++slice) {
    program.placement.stages.push_back({.ranks = {slice - ranks}});
    program.edges.push_back(
        {.from = last, .to = slice, .flows = rescales_later ? EdgeFlows::activation : EdgeFlows::both});
    program.edges.push_back({.from = slice, .to = loss});
  }
  program.placement.stages.push_back({.ranks = {last}});
  if (rescales_later) program.edges.push_back({.from = last, .to = loss, .flows = EdgeFlows::gradient});
  std::ranges::sort(program.edges);
}

/// Returns the action list of rank K-1-d, so d is the distance from the last rank.
std::vector<Action> list_of(const Program& program, std::int32_t d, Barriers barriers) {
  const std::int32_t ranks = program.rank_count();
  const std::int32_t stage = ranks - 1 - d;
  const std::int32_t slice = ranks + stage;
  const std::int32_t loss = 2 * ranks;
  // Each repetition of the loop runs one F. These numbers say how many repetitions later the microbatch runs
  // S, T and B.
  const bool is_s_after_f = d % 3 == 2;
  const std::int32_t s_behind = d / 3 + (is_s_after_f ? 1 : 0);
  const std::int32_t t_behind = d / 3 + 1;
  const bool is_t_after_f = d % 3 == 0 && barriers == Barriers::two;
  const std::int32_t b_behind = d + static_cast<std::int32_t>(barriers);
  std::vector<Action> list;
  const auto add = [&](ActionKind kind, std::int32_t of_stage, std::int32_t microbatch) {
    if (microbatch >= 0 && microbatch < program.microbatches)
      list.push_back(compute(kind, of_stage, microbatch));
  };
  for (std::int32_t i = 0; i < program.microbatches + b_behind; ++i) {
    add(ActionKind::forward, stage, i);
    if (d == 0) {
      add(ActionKind::forward, loss, i - 1);
      add(ActionKind::backward, loss, i - 1);
    }
    if (is_t_after_f) add(ActionKind::backward, slice, i - t_behind);
    if (is_s_after_f) add(ActionKind::forward, slice, i - s_behind);
    add(ActionKind::backward, stage, i - b_behind);
    if (!is_t_after_f) add(ActionKind::backward, slice, i - t_behind);
    if (!is_s_after_f) add(ActionKind::forward, slice, i - s_behind);
  }
  return list;
}

Program vocabulary_program(std::string schedule, const Shape& shape, Barriers barriers) {
  Program program = looped_program(std::move(schedule), shape);
  add_output_stages(program, barriers);
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank)
    program.ranks[index(rank)] = list_of(program, program.rank_count() - 1 - rank, barriers);
  append_steps(program);
  return program;
}

/// Returns the largest number of activations that a rank stores: those of the layers, one of a slice, and one
/// of the loss on the last rank.
std::int64_t peak_of(const Shape& shape, std::int32_t rank, Barriers barriers) {
  const std::int32_t ahead = shape.stages - rank + static_cast<std::int32_t>(barriers);
  return std::min(shape.microbatches, ahead) + (rank + 1 == shape.stages ? 2 : 1);
}

}  // namespace

Generated one_f_one_b_vocab_1(const Shape& shape) {
  return vocabulary_program("1f1b-vocab-1", shape, Barriers::two);
}
Generated one_f_one_b_vocab_2(const Shape& shape) {
  return vocabulary_program("1f1b-vocab-2", shape, Barriers::one);
}

std::int64_t vocab_1_peak(const Shape& shape, std::int32_t rank) {
  return peak_of(shape, rank, Barriers::two);
}
std::int64_t vocab_2_peak(const Shape& shape, std::int32_t rank) {
  return peak_of(shape, rank, Barriers::one);
}

}  // namespace penstock

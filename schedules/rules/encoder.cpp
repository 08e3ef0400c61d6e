// Generates 1F1B with an encoder on all ranks (Optimus, Feng et al., arXiv 2408.03505). Models of several
// modalities encode images or sound before the layers of the language model. An encoder in front of the first
// stage would make that stage longer. So each rank has a whole copy of the encoder and encodes every K-th
// microbatch. A program with K ranks has K + 1 stages: stage 0 is the encoder on all ranks, and stage 1 + r
// is on rank r. The ranks reduce the encoder's gradients once a minibatch. With 3 ranks and 4 microbatches:
//
// 1f1b-encoder-first: each rank encodes all its microbatches, runs 1F1B, and then the encoder's backwards.
//
//   rank 0   0F0 0F3 1F0 1F1 1F2         1B0 1F3 1B1     1B2     1B3 0B0 0B3
//   rank 1   0F1         2F0 2F1     2B0 2F2 2B1 2F3 2B2     2B3 0B1
//   rank 2   0F2             3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 0B2
//
// 1f1b-encoder-bubbles: the order of 1F1B stays the same. The encoder's first F is at the beginning and its
// last B at the end. Its other F and B are in the pauses of 1F1B.
//
//   rank 0   0F0 1F0 1F1 1F2 0F3     1B0 1F3 1B1 0B0 1B2     1B3 0B3
//   rank 1   0F1     2F0 2F1     2B0 2F2 2B1 2F3 2B2     2B3 0B1
//   rank 2   0F2         3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 0B2
//
// In 1F1B, rank r pauses for r F before its first forward, and for K-1-r B before its first backward. It also
// pauses for one F before each of its last K-1-r backwards, and for r B at the end. With B = 2 F, the first
// two pauses share the encoder's forwards in the ratio r to 2 (K-1-r). After each of the last backwards, the
// rank runs one backward of the encoder if its gradient has arrived. The other backwards of the encoder run
// at the end. If the encoder fits into these pauses, 1f1b-encoder-bubbles takes as long as 1F1B plus one F
// and one B of the encoder. Otherwise it is at most as long as 1f1b-encoder-first. Tested by
// picture_test.cpp, conformance_test.cpp and encoder_test.cpp.

#include <algorithm>
#include <cstddef>
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
#include "schedules/rules/generators.hpp"

namespace penstock {

namespace {

constexpr std::int32_t kEncoder = 0;

/// Returns a program with empty lists, the encoder on all ranks, and one stage of layers on each rank.
Program placed_encoder(std::string schedule, const Shape& shape) {
  Program program = looped_program(std::move(schedule), shape);
  StagePlacement encoder{.ranks = {}, .route = {}};
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) encoder.ranks.push_back(rank);
  // Microbatch numbers continue from one iteration to the next, but each iteration begins with rank 0 again.
  // The route must therefore end with an iteration.
  const bool divides = shape.microbatches % shape.stages == 0;
  const std::int32_t period = divides ? shape.stages : shape.microbatches;
  for (std::int32_t m = 0; m < period; ++m) encoder.route.push_back(m % shape.stages);
  program.placement.stages.insert(program.placement.stages.begin(), std::move(encoder));
  return program;
}

/// The 1F1B list of one rank in three parts, and the microbatches that the rank encodes.
struct RankParts {
  std::vector<Action> warmup;    ///< the forwards before the first backward
  std::vector<Action> steady;    ///< the following actions, up to the last forward
  std::vector<Action> cooldown;  ///< the backwards after the last forward
  std::vector<std::int32_t> encoded;
};

/// Returns the parts of the list of `rank`, which is `one_f_one_b_list` under 1F1B.
RankParts parts_of(const Shape& shape, const std::vector<Action>& one_f_one_b_list, std::int32_t rank) {
  std::vector<Action> layers;
  for (Action action : one_f_one_b_list) {
    if (action.kind == ActionKind::step) continue;
    ++action.stage;  // stage 0 is the encoder
    layers.push_back(action);
  }
  const auto is_forward = [](const Action& action) { return action.kind == ActionKind::forward; };
  const auto first_backward = std::ranges::find_if_not(layers, is_forward);
  const auto cooldown = std::find_if(layers.rbegin(), layers.rend(), is_forward).base();
  RankParts parts{.warmup = {layers.begin(), first_backward},
                  .steady = {first_backward, cooldown},
                  .cooldown = {cooldown, layers.end()},
                  .encoded = {}};
  for (std::int32_t m = rank; m < shape.microbatches; m += shape.stages) parts.encoded.push_back(m);
  return parts;
}

/// A list of actions to which whole lists are appended.
class RankList {
 public:
  explicit RankList(std::vector<Action>& list) : list_(list) {}

  void add(const std::vector<Action>& actions) { list_.insert(list_.end(), actions.begin(), actions.end()); }
  void add(const Action& action) { list_.push_back(action); }
  /// Appends forwards or backwards of the encoder, for the microbatches encoded[begin] to encoded[end - 1].
  void add_encoder(ActionKind kind, const std::vector<std::int32_t>& encoded, std::size_t begin,
                   std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) list_.push_back(compute(kind, kEncoder, encoded[i]));
  }

 private:
  std::vector<Action>& list_;
};

/// Returns how many of its microbatches a rank encodes before its first forward of the layers. The rank
/// always encodes its first microbatch there. The others are divided between its two pauses in the ratio r to
/// 2 (K-1-r).
std::size_t encoded_at_start(const RankParts& parts, std::int64_t ranks, std::int64_t rank) {
  if (parts.encoded.empty()) return 0;
  const std::size_t others = parts.encoded.size() - 1;
  const std::int64_t pauses = rank + 2 * (ranks - 1 - rank);
  if (pauses == 0) return parts.encoded.size();
  // Half of the divisor is added, so that the division rounds to the nearest number.
  return 1 + (2 * others * static_cast<std::size_t>(rank) + static_cast<std::size_t>(pauses)) /
                 (2 * static_cast<std::size_t>(pauses));
}

void fill_first(std::vector<Action>& actions, const RankParts& parts) {
  RankList list(actions);
  list.add_encoder(ActionKind::forward, parts.encoded, 0, parts.encoded.size());
  list.add(parts.warmup);
  list.add(parts.steady);
  list.add(parts.cooldown);
  list.add_encoder(ActionKind::backward, parts.encoded, 0, parts.encoded.size());
}

void fill_bubbles(std::vector<Action>& actions, const RankParts& parts, std::int32_t ranks,
                  std::int32_t rank) {
  const std::size_t all = parts.encoded.size();
  const std::size_t at_start = encoded_at_start(parts, ranks, rank);
  RankList list(actions);
  list.add_encoder(ActionKind::forward, parts.encoded, 0, at_start);
  list.add(parts.warmup);
  list.add_encoder(ActionKind::forward, parts.encoded, at_start, all);
  list.add(parts.steady);
  std::size_t returned = 0;
  for (const Action& action : parts.cooldown) {
    list.add(action);
    // The gradient must pass `rank` more stages to reach the encoder. Each of them takes the time of one
    // backward.
    const bool has_come = returned + 1 < all && parts.encoded[returned] + rank < action.microbatch;
    if (!has_come) continue;
    list.add_encoder(ActionKind::backward, parts.encoded, returned, returned + 1);
    ++returned;
  }
  list.add_encoder(ActionKind::backward, parts.encoded, returned, all);
}

/// Returns a program whose lists `fill` writes. For each rank, `fill` gets the parts of this rank's 1F1B list
/// (RankParts).
template <class Fill>
Generated encoder_program(std::string schedule, const Shape& shape, const Fill& fill) {
  return one_f_one_b({.stages = shape.stages, .microbatches = shape.microbatches})
      .map([&](const Program& layers) {
        Program program = placed_encoder(std::move(schedule), shape);
        for (std::int32_t rank = 0; rank < shape.stages; ++rank)
          fill(program.ranks[index(rank)], parts_of(shape, layers.ranks[index(rank)], rank), rank);
        append_reductions(program);
        append_steps(program);
        return program;
      });
}

}  // namespace

Generated one_f_one_b_encoder_first(const Shape& shape) {
  return encoder_program(
      "1f1b-encoder-first", shape,
      [](std::vector<Action>& actions, const RankParts& parts, std::int32_t) { fill_first(actions, parts); });
}

Generated one_f_one_b_encoder_bubbles(const Shape& shape) {
  return encoder_program("1f1b-encoder-bubbles", shape,
                         [&shape](std::vector<Action>& actions, const RankParts& parts, std::int32_t rank) {
                           fill_bubbles(actions, parts, shape.stages, rank);
                         });
}

std::int64_t encoder_peak(const Shape& shape, std::int32_t rank) {
  const std::int64_t encoded = (std::int64_t{shape.microbatches} - rank + shape.stages - 1) / shape.stages;
  return std::min(shape.microbatches, shape.stages - rank) + std::max<std::int64_t>(0, encoded);
}

}  // namespace penstock

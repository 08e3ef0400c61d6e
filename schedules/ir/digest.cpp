// Computes a digest that names a program, so that two results are compared only if their programs are
// equal. The program is written as a sequence of 32-bit little-endian words, and XXH3-128 hashes them. All
// fields and the placement come first. A list starts with its length. Then the actions of the rank follow,
// five words each:
//
//   digest = XXH3-128( head | stages: ranks, route | edges | rank 0: n, a0 a1 ... | rank 1: ... )
//   a      = kind, overlaps_next and no_wait | stage | microbatch | peer | weight version
//
// Equal programs have equal words, and different programs have different words. XXH3 (Yann Collet, xxHash
// 0.8) gives two different programs equal digests with a chance of 2^-128. A deliberate attacker can
// construct two programs with equal digests. Tests: tests/schedules/action_loops_test.cpp.

#include "schedules/ir/digest.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#define XXH_INLINE_ALL  // compiles the hash into this file, so that no library must be linked
#include <xxhash.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// Returns the word whose bytes in memory are those of `word` in little-endian order.
constexpr std::uint32_t little_endian(std::uint32_t word) {
  if constexpr (std::endian::native == std::endian::little) return word;
  return (word >> 24) | ((word >> 8) & 0xff00U) | ((word << 8) & 0xff0000U) | (word << 24);
}

/// A hash that collects words in blocks before it hashes them. A call of XXH3 takes longer than hashing one
/// action.
class WordHash {
 public:
  WordHash() : state_(XXH3_createState(), &XXH3_freeState) {
    if (!state_) throw std::bad_alloc();
    XXH3_128bits_reset(state_.get());
  }

  /// Adds the lowest 32 bits of a number. All fields of a program fit in 32 bits. A length may not fit, but
  /// the entries of its list follow and distinguish the programs.
  void add(std::int64_t number) { add(static_cast<std::uint32_t>(number)); }
  void add(std::uint32_t word) {
    if (used_ == block_.size()) flush();
    block_[used_++] = little_endian(word);
  }
  void add(std::string_view text) {
    add(static_cast<std::int64_t>(text.size()));
    for (const char letter : text) add(static_cast<std::uint32_t>(static_cast<unsigned char>(letter)));
  }
  void add(const std::vector<std::int32_t>& numbers) {
    add(static_cast<std::int64_t>(numbers.size()));
    for (const std::int32_t number : numbers) add(std::int64_t{number});
  }
  void add(const Action& action) {
    add(static_cast<std::uint32_t>(action.kind) | (action.overlaps_next ? 1U << 8 : 0U) |
        (action.no_wait ? 1U << 9 : 0U));
    for (const std::int32_t number : {action.stage, action.microbatch, action.peer, action.weight_version})
      add(std::int64_t{number});
  }

  std::string hexadecimal() {
    flush();
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  void flush() {
    XXH3_128bits_update(state_.get(), block_.data(), used_ * sizeof(block_[0]));
    used_ = 0;
  }

  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
  std::array<std::uint32_t, 1024> block_{};
  std::size_t used_ = 0;
};

/// The words that are hashed before the passes of all stages, and before the flows of all edges.
constexpr std::uint32_t kPassesFollow = 0xffff'ffff;
constexpr std::uint32_t kFlowsFollow = 0xffff'fffe;

/// Adds every field of Program except its placement and its lists. If a field were missing here, two programs
/// that differ only in this field would have the same digest.
void add_head(WordHash& hash, const Program& program) {
  hash.add(std::string_view(program.schedule));
  for (const std::int32_t number :
       {program.microbatches, program.slices, program.iterations, program.sharding,
        std::int32_t{program.barrier}, std::int32_t{program.mixed_versions}}) {
    hash.add(std::int64_t{number});
  }
  hash.add(static_cast<std::uint32_t>(program.update));
  hash.add(static_cast<std::uint32_t>(program.recompute));
  hash.add(static_cast<std::uint32_t>(program.channel));
}

void add_placement(WordHash& hash, const Program& program) {
  hash.add(static_cast<std::int64_t>(program.placement.stages.size()));
  for (const StagePlacement& stage : program.placement.stages) {
    hash.add(stage.ranks);
    hash.add(stage.route);
  }
  hash.add(static_cast<std::int64_t>(program.edges.size()));
  for (const StageEdge& edge : program.edges) {
    hash.add(std::int64_t{edge.from});
    hash.add(std::int64_t{edge.to});
  }
  // Programs that state no passes and no flows add nothing here, so their digests stay as they were before
  // these fields existed. Such a program continues with a number of ranks, which never equals a mark.
  if (has_forward_only_stage(program)) {
    hash.add(kPassesFollow);
    for (const StagePlacement& stage : program.placement.stages)
      hash.add(static_cast<std::uint32_t>(stage.passes));
  }
  const bool has_one_way_edge =
      std::ranges::any_of(program.edges, [](const StageEdge& edge) { return edge.flows != EdgeFlows::both; });
  if (has_one_way_edge) {
    hash.add(kFlowsFollow);
    for (const StageEdge& edge : program.edges) hash.add(static_cast<std::uint32_t>(edge.flows));
  }
}

}  // namespace

/// The words of the digest. They are behind a pointer, so that only this file compiles xxhash.h, which is
/// header-only and large.
struct DigestOfLists::Words {
  WordHash hash;
};

DigestOfLists::DigestOfLists(const Program& program) : words_(std::make_unique<Words>()) {
  add_head(words_->hash, program);
  add_placement(words_->hash, program);
  words_->hash.add(static_cast<std::int64_t>(program.ranks.size()));
}

DigestOfLists::~DigestOfLists() = default;

void DigestOfLists::begin_list(std::size_t actions) { words_->hash.add(static_cast<std::int64_t>(actions)); }

void DigestOfLists::add(const Action& action) { words_->hash.add(action); }

std::string DigestOfLists::text() && { return words_->hash.hexadecimal(); }

std::string digest(const Program& lowered) {
  DigestOfLists lists(lowered);
  for (const std::vector<Action>& list : lowered.ranks) {
    lists.begin_list(list.size());
    for (const Action& action : list) lists.add(action);
  }
  return std::move(lists).text();
}

}  // namespace penstock

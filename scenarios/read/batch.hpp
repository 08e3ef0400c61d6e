#pragma once
// The batch rule: how samples, microbatches and minibatches of a scenario follow from each other. Used by
// load.hpp for the file's own microbatch and by experiment.hpp for the one in force.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace penstock {

/// The batch sizes. At most two of micro_batch_size, global_batch_size and microbatches are needed; the
/// third follows; all three must agree. One sample a microbatch if neither size is given.
struct Batch {
  std::int64_t own_micro_batch_size = 1;  ///< for which the model's times and bytes hold
  std::optional<std::int64_t> micro_batch_size;
  std::optional<std::int64_t> global_batch_size;
  std::optional<std::int64_t> microbatches;

  friend bool operator==(const Batch&, const Batch&) = default;
};

/// What the schedule calls a microbatch.
enum class MicrobatchMeaning : std::uint8_t {
  part_of_minibatch,  // global_batch_size = micro_batch_size * microbatches
  whole_minibatch,    // asynchronous schedules: both sizes mean the same, microbatches is free
};

/// What a microbatch of the schedule `name` (of the table of schedules) is; part_of_minibatch for others.
MicrobatchMeaning meaning_of_microbatch(std::string_view name);

/// `own` with the figures that are `stated` in their place (flags over a file). Where that makes three, one
/// that is only in `own` is left out and follows from the others: the microbatch's size when their number is
/// stated, their number otherwise. A stated size of a whole minibatch replaces the other one.
Batch overridden(const Batch& own, const Batch& stated, MicrobatchMeaning meaning);

/// Both figures that a run needs; each at least 1.
struct ResolvedBatch {
  std::int64_t micro_batch_size = 1;
  std::int32_t microbatches = 1;

  friend bool operator==(const ResolvedBatch&, const ResolvedBatch&) = default;
};

/// Applies the rule. Errors name every figure that is involved: a number below 1, sizes that do not agree
/// or do not divide (with the nearest that do), microbatches neither given nor following, more than 2^31 - 1.
tl::expected<ResolvedBatch, std::string> resolve_batch(const Batch& batch, MicrobatchMeaning meaning);

/// The samples of one microbatch as far as the sizes alone tell; nothing when they do not.
std::optional<std::int64_t> micro_batch_size_of(const Batch& batch, MicrobatchMeaning meaning);
/// The same of one minibatch. Error: more than 2^63 samples.
tl::expected<std::optional<std::int64_t>, std::string> global_batch_size_of(const Batch& batch,
                                                                            MicrobatchMeaning meaning);

/// The batch of one of `copies` of a pipeline, which share a global batch. A microbatch is one sample unless
/// its size is stated or follows. Error: a global batch that does not divide.
tl::expected<Batch, std::string> batch_of_copy(Batch batch, std::int32_t copies);

}  // namespace penstock

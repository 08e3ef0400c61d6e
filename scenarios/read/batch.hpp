#pragma once
// The batch rule, which connects the samples, microbatches and minibatches of a scenario. Used by load.hpp
// for the microbatch of the file and by experiment.hpp for the one in force.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace penstock {

/// The batch sizes. Two of micro_batch_size, global_batch_size and microbatches determine the third. If all
/// three are stated, they must agree. If neither size is stated, a microbatch has one sample.
struct Batch {
  /// The number of samples for which the model's times and bytes hold.
  std::int64_t own_micro_batch_size = 1;
  std::optional<std::int64_t> micro_batch_size;
  std::optional<std::int64_t> global_batch_size;
  std::optional<std::int64_t> microbatches;

  friend bool operator==(const Batch&, const Batch&) = default;
};

/// The meaning of a microbatch in a schedule.
enum class MicrobatchMeaning : std::uint8_t {
  part_of_minibatch,  // global_batch_size = micro_batch_size * microbatches
  whole_minibatch,    // asynchronous schedules: both sizes are equal, and microbatches is free
};

/// Returns the meaning of a microbatch in the schedule `name`, or part_of_minibatch for an unknown name.
MicrobatchMeaning meaning_of_microbatch(std::string_view name);

/// Returns `own` with the figures of `stated` in place of its own, such as flags over a file. If all three
/// figures are then present, one figure that is not stated is removed, so that it follows from the others. If
/// `stated` has no number of microbatches, this number is removed, and otherwise a size. If a microbatch is a
/// whole minibatch, a stated size replaces the other size.
Batch overridden(const Batch& own, const Batch& stated, MicrobatchMeaning meaning);

/// The two figures that a run needs. Each is at least 1.
struct ResolvedBatch {
  std::int64_t micro_batch_size = 1;
  std::int32_t microbatches = 1;

  friend bool operator==(const ResolvedBatch&, const ResolvedBatch&) = default;
};

/// Applies the batch rule. Errors name every figure involved: a number below 1, sizes that do not agree or do
/// not divide (with the nearest sizes that do), an unknown number of microbatches, more than 2^31 - 1.
tl::expected<ResolvedBatch, std::string> resolve_batch(const Batch& batch, MicrobatchMeaning meaning);

/// Returns the samples of one microbatch, or nothing if the sizes alone do not determine them.
std::optional<std::int64_t> micro_batch_size_of(const Batch& batch, MicrobatchMeaning meaning);
/// Returns the samples of one minibatch, or nothing if the sizes alone do not determine them. Error: more
/// than 2^63 samples.
tl::expected<std::optional<std::int64_t>, std::string> global_batch_size_of(const Batch& batch,
                                                                            MicrobatchMeaning meaning);

/// Returns the batch of one of `copies` copies of a pipeline, which share a global batch. A microbatch has
/// one sample unless its size is stated or follows. Error: a global batch that does not divide.
tl::expected<Batch, std::string> batch_of_copy(Batch batch, std::int32_t copies);

}  // namespace penstock

#pragma once
// The rules that add stages to the K stages of a pipeline, and the number and meaning of these stages. Slices
// of an output layer do not form a chain with the other stages, so their programs state edges.

#include <cstdint>
#include <string_view>

#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "text/enum_words.hpp"

namespace penstock {

/// The stages that a rule adds to the K stages of the layers.
enum class ExtraStages : std::uint8_t {
  none,
  output_slices,  // K slices of the output layer and the loss come after the layers; slices compute in S and
                  // T
  output_slices_inputs,  // the same stages, but S also computes the gradient of the layer's input
  encoder,               // one stage that all ranks hold comes before the layers
};

/// Returns true if the schedule divides the output layer.
constexpr bool divides_output(ExtraStages extra) {
  return extra == ExtraStages::output_slices || extra == ExtraStages::output_slices_inputs;
}

/// Returns the extra stages of the schedule with this name or alias.
ExtraStages extra_stages_of(std::string_view schedule);
/// Returns the extra stages of a program that has the name and the number of stages of such a schedule.
ExtraStages extra_stages_of(const Program& program);

/// Returns the total number of stages of a schedule that has `layer_stages` stages of layers.
constexpr std::int32_t with_extra_stages(ExtraStages extra, std::int32_t layer_stages) {
  if (divides_output(extra)) return 2 * layer_stages + 1;
  return layer_stages + (extra == ExtraStages::encoder ? 1 : 0);
}
/// Returns the number of stages with layers among `all` stages. It is the inverse of with_extra_stages().
constexpr std::int32_t layer_stages(ExtraStages extra, std::int32_t all) {
  if (divides_output(extra)) return (all - 1) / 2;
  return all - (extra == ExtraStages::encoder ? 1 : 0);
}

/// The part of a model's work on a stage, as numerator / denominator.
struct StageShare {
  std::int64_t numerator = 1;
  std::int64_t denominator = 1;

  std::int64_t of(std::int64_t whole) const { return whole * numerator / denominator; }
};
/// Returns the part of the work on one of `all` stages in a model of equal parts. An output layer or an
/// encoder is as large as one stage of layers. The slices of an output layer are equal, and the loss has no
/// work.
constexpr StageShare stage_share(ExtraStages extra, std::int32_t all, std::int32_t stage) {
  if (!divides_output(extra)) return {.denominator = all};
  const std::int64_t layers = layer_stages(extra, all);
  if (stage + 1 == all) return {.numerator = 0};
  return {.denominator = stage < layers ? layers + 1 : (layers + 1) * layers};
}

// The rules (vocabulary.cpp and encoder.cpp), and functions that return the largest number of activations
// that a rank stores.
Generated one_f_one_b_vocab_1(const Shape& shape);
Generated one_f_one_b_vocab_2(const Shape& shape);
Generated one_f_one_b_encoder_first(const Shape& shape);
Generated one_f_one_b_encoder_bubbles(const Shape& shape);
std::int64_t vocab_1_peak(const Shape& shape, std::int32_t rank);
std::int64_t vocab_2_peak(const Shape& shape, std::int32_t rank);
std::int64_t encoder_peak(const Shape& shape, std::int32_t rank);

}  // namespace penstock

#pragma once
// The analytic transformer: parameters, floating-point operations, activations and times of a GPT from its
// sizes. Read from `model.transformer` and `model.huggingface` by load_transformer.hpp; it becomes a
// LayerGraph.

#include <array>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// What each block computes again in its backward pass instead of keeping it.
enum class BlockRecompute : std::uint8_t {
  none,
  selective,  // the attention core: scores, softmax, its dropout, and the sum over the values
  full,       // everything but the block's input
};
template <>
inline constexpr auto kEnumWords<BlockRecompute> =
    std::to_array<EnumWord<BlockRecompute>>({{BlockRecompute::none, "none"},
                                             {BlockRecompute::selective, "selective"},
                                             {BlockRecompute::full, "full"}});

/// A GPT and how it is laid over the devices of one rank. All sizes are at least 1; heads divides hidden,
/// tensor_parallel divides heads and feed_forward, and sequence where `sequence_parallel`.
struct TransformerShape {
  std::int64_t layers = 1;  ///< blocks
  std::int64_t hidden = 1;
  std::int64_t heads = 1;
  std::int64_t sequence = 1;
  std::int64_t vocabulary = 1;
  std::int64_t feed_forward = 4;  ///< inner width of the feed-forward part
  std::int64_t bytes_per_value = 2;
  std::int64_t tensor_parallel = 1;  ///< devices of a rank, which share each block
  bool sequence_parallel = false;    ///< they share layer norms and dropouts along the sequence, too
  BlockRecompute recompute = BlockRecompute::none;

  friend bool operator==(const TransformerShape&, const TransformerShape&) = default;
};

/// How fast the devices of a rank are.
struct TransformerSpeed {
  double flops_per_second = 0;  ///< peak of one device, > 0
  double efficiency = 1;        ///< part of the peak that is reached, 0 < efficiency <= 1
  double tensor_bytes_per_second =
      0;  ///< each way of a link between two devices of a rank; > 0 where tensor_parallel > 1
};

/// Parameters, the token embedding counted once though the head uses it, too, and without the last layer
/// norm: l (4 h^2 + 2 h f + 9 h + f) + (V + s) h, which for f = 4 h is 12 l h^2 (1 + 13/(12 h) +
/// (V + s)/(12 l h)) (Narayanan et al., SC'21, equation 2).
double parameter_count(const TransformerShape& shape);

/// Floating-point operations that one sample of training asks for, forward and backward, with nothing
/// computed twice: 72 l s h^2 (1 + s/(6 h) + V/(12 l h)) for f = 4 h (Korthikanti et al., MLSys'23,
/// appendix).
double model_flops(const TransformerShape& shape);

/// Those that are done, recomputation included. Full: 96 l s h^2 (1 + s/(6 h) + V/(16 l h)) (SC'21,
/// equation 3). Selective: 72 l s h^2 (1 + s/(3 h) + V/(12 l h)) (MLSys'23, appendix), which counts three
/// times the operations of one attention core.
double hardware_flops(const TransformerShape& shape);

/// Bytes that a device keeps of one block for one sample from F to B, for values of 2 bytes and f = 4 h
/// (MLSys'23, table 2): s h (34 + 5 a s/h) on one device, s h (10 + 24/t + 5 a s/(h t)) on t, all of it over
/// t with sequence parallelism, without 5 a s/h where that is recomputed, 2 s h in full recomputation.
/// Saturates at 2^63 - 1.
Bytes kept_of_block(const TransformerShape& shape);

/// The layers "embedding", "block0", ..., "head" for one sample; times and bytes are those of one device of a
/// rank. F of a block takes its operations / (flops x efficiency x t) and two ring all-reduces of the
/// block's output, B twice the operations and two more all-reduces, and what it recomputes (in full: two
/// all-reduces more). The embedding takes no time; the head has a copy of its weights and keeps its logits in
/// 4 bytes a value. Error: times or bytes of a layer beyond 2^63.
tl::expected<LayerGraph, std::string> transformer_layers(const TransformerShape& shape,
                                                         const TransformerSpeed& speed);

}  // namespace penstock

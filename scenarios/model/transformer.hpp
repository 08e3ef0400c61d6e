#pragma once
// The analytic transformer: parameters, floating-point operations, activations and times of a GPT, computed
// from its sizes. load_architecture.hpp reads it from `model.transformer` or `model.huggingface`. It becomes
// a LayerGraph.

#include <array>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The parts of each transformer block that the backward pass recomputes, so that their activations are not
/// stored.
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

/// The sizes of a GPT, and its division among the devices of one rank. All sizes are at least 1. `heads`
/// divides `hidden`, and `tensor_parallel` divides `heads` and `feed_forward`. With `sequence_parallel`,
/// `tensor_parallel` also divides `sequence`.
struct TransformerShape {
  std::int64_t layers = 1;  ///< the number of transformer blocks
  std::int64_t hidden = 1;
  std::int64_t heads = 1;
  std::int64_t sequence = 1;
  std::int64_t vocabulary = 1;
  std::int64_t feed_forward = 4;  ///< the inner width of the feed-forward part
  std::int64_t bytes_per_value = 2;
  std::int64_t tensor_parallel = 1;  ///< the number of devices of a rank; they share each block
  bool sequence_parallel = false;    ///< the devices also share layer norms and dropouts along the sequence
  BlockRecompute recompute = BlockRecompute::none;

  friend bool operator==(const TransformerShape&, const TransformerShape&) = default;
};

/// The speed of the devices of a rank.
struct TransformerSpeed {
  double flops_per_second = 0;  ///< the peak of one device, > 0
  double efficiency = 1;        ///< the part of the peak that is reached, 0 < efficiency <= 1
  /// The bandwidth of a link between two devices of a rank, in each direction. It is > 0 if tensor_parallel
  /// > 1.
  double tensor_bytes_per_second = 0;
};

/// Returns the number of parameters. The token embedding is counted once, although the head also uses it. The
/// last layer norm is not counted. The number is l (4 h^2 + 2 h f + 9 h + f) + (V + s) h, which for f = 4 h
/// is 12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h)) (Narayanan et al., SC'21, equation 2).
double parameter_count(const TransformerShape& shape);

/// Returns the floating-point operations of the forward and backward passes for one sample, without
/// recomputation. For f = 4 h these are 72 l s h^2 (1 + s/(6 h) + V/(12 l h)) (Korthikanti et al., MLSys'23,
/// appendix).
double model_flops(const TransformerShape& shape);

/// Returns the floating-point operations for one sample, including recomputation.
/// Full: 96 l s h^2 (1 + s/(6 h) + V/(16 l h)) (SC'21, equation 3).
/// Selective: 72 l s h^2 (1 + s/(3 h) + V/(12 l h)) (MLSys'23, appendix), which counts three times the
/// operations of one attention core.
double hardware_flops(const TransformerShape& shape);

/// Returns the bytes that a device stores for one block from F to B, for one sample (MLSys'23, table 2). For
/// values of 2 bytes and f = 4 h these are:
///     one device                s h (34 + 5 a s/h)
///     t devices                 s h (10 + 24/t + 5 a s/(h t))
///     sequence parallelism      s h (34 + 5 a s/h) / t
///     selective recomputation   without the term with 5 a s/h
///     full recomputation        2 s h
/// The result is at most 2^63 - 1.
Bytes kept_of_block(const TransformerShape& shape);

/// Returns the layers "embedding", "block0", ..., "head" for one sample. Times and bytes are figures of one
/// device of a rank. F of a block takes its operations / (flops x efficiency x t) and two ring all-reduces of
/// the block's output. B takes twice the operations, two more all-reduces, and the recomputation. Full
/// recomputation has two further all-reduces. The embedding takes no time. The head has a copy of its
/// weights, and its logits have 4 bytes a value. Fails if a time or a number of bytes of a layer exceeds
/// 2^63.
tl::expected<LayerGraph, std::string> transformer_layers(const TransformerShape& shape,
                                                         const TransformerSpeed& speed);

}  // namespace penstock

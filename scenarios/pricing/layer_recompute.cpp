// The words of scenarios (training.recompute), as Megatron-LM's --recompute-granularity and
// --recompute-modules and SimuMax's tables have them.

#include "scenarios/pricing/layer_recompute.hpp"

#include <string_view>

namespace penstock {

std::string_view to_text(LayerRecompute recompute) {
  switch (recompute) {
    case LayerRecompute::none:
      return "none";
    case LayerRecompute::selective:
      return "selective";
    case LayerRecompute::norm:
      return "norm";
    case LayerRecompute::activation:
      return "activation";
    case LayerRecompute::mlp:
      return "mlp";
    case LayerRecompute::full:
      return "full";
  }
  return "";
}

}  // namespace penstock

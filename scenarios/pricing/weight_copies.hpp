#pragma once
// What the copies of a weight say to each other, and what of it each of them holds (ZeRO).

#include <cstdint>
#include <vector>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// Bytes of a weight on its way to the other copies: 2, or 1 where products take 8 bits or less.
double gathered_bytes(const Workload& work);

/// Those of `held` that a device holds of what is shared out from `sharding` on.
DeviceParameters held_from(const Parallel& parallel, std::int32_t sharding, const DeviceParameters& held);

/// What a microbatch shows already of what copies tell each other, in seconds: a part of its passes' times.
struct ShownCollectives {
  double gathered_s = 0;   ///< weights, in the forward pass
  double scattered_s = 0;  ///< gradients
  ShownCollectives& operator+=(const ShownCollectives& other) {
    gathered_s += other.gathered_s;
    scattered_s += other.scattered_s;
    return *this;
  }
};
/// Of a layer's terms: those that add_copies_terms() added.
ShownCollectives shown_collectives(const std::vector<Term>& terms);

/// What each microbatch waits for beside the `terms` of a layer with these parameters, as far as they do not
/// hide it: under sharding 2 and 3 its gradients, scattered; under 3 its weights, gathered both ways.
void add_copies_terms(std::vector<Term>& terms, const Workload& work, const KernelTables& kernels,
                      const DeviceParameters& parameters);

/// Bytes that a layer needs whole while it runs and that are held in parts otherwise: its gradients (2 and
/// 3), its weights (3).
double whole_layer_bytes(const Workload& work, const DeviceParameters& parameters);
/// Its weights alone (3): what it takes besides to gather a next layer of the same size beside it.
double whole_weight_bytes(const Workload& work, const DeviceParameters& parameters);

}  // namespace penstock

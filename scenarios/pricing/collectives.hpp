#pragma once
// The time of collectives in groups of devices. A ring of n devices moves (n-1)/n of the tensor over each
// link, twice for an all-reduce; in an all-to-all each device keeps 1/n. Inside one NVLink domain measured
// tables are used instead. Between domains a group has the network cards of all its members in a domain
// (group_bytes_per_second in workload.hpp).

#include <cstdint>
#include <vector>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// Returns the seconds of a group's collective over a tensor of `bytes` (as in
/// KernelTables::collective_seconds). Inside one NVLink domain it uses the table, otherwise the rate of
/// the group's network cards and the network's latency.
double group_seconds(const Workload& work, const KernelTables& kernels, DeviceGroup group,
                     GroupOperation operation, double bytes);

/// Returns the seconds of a collective among all copies of weights, of `bytes` for each parameter, without
/// latency.
double copies_seconds(const Workload& work, const KernelTables& kernels, GroupOperation operation,
                      const DeviceParameters& parameters, double bytes);

// The exchanges between the copies of a weight, and the part that each copy holds (ZeRO).

/// Returns the bytes of a weight when it is sent to other copies: 2, or 1 if products have 8 bits or less.
double gathered_bytes(const Workload& work);

/// Returns the part of `held` that a device holds of state that is divided from `sharding` on.
DeviceParameters held_from(const Parallel& parallel, std::int32_t sharding, const DeviceParameters& held);

/// The seconds of exchanges between copies that a microbatch already exposes. They are part of its passes'
/// times.
struct ShownCollectives {
  /// The gathering of weights in the forward pass.
  double gathered_s = 0;
  /// The gathering of weights in the backward pass.
  double gathered_again_s = 0;
  /// The scattering of gradients.
  double scattered_s = 0;
  ShownCollectives& operator+=(const ShownCollectives& other) {
    gathered_s += other.gathered_s;
    gathered_again_s += other.gathered_again_s;
    scattered_s += other.scattered_s;
    return *this;
  }
};
/// Returns the exposed exchanges among a layer's terms, which add_copies_terms() has added.
ShownCollectives shown_collectives(const std::vector<Term>& terms);

/// Adds the exchanges for which each microbatch waits, as far as the `terms` of the layer do not hide them.
/// Sharding 2 and 3 scatter gradients, and 3 gathers weights in both passes.
void add_copies_terms(std::vector<Term>& terms, const Workload& work, const KernelTables& kernels,
                      const DeviceParameters& parameters);

/// Returns the bytes that a layer needs completely while it runs and that are otherwise held in parts: its
/// gradients (2 and 3) and its weights (3).
double whole_layer_bytes(const Workload& work, const DeviceParameters& parameters);
/// Returns the bytes of the layer's weights alone (3), which are needed to gather a next layer of the same
/// size at the same time.
double whole_weight_bytes(const Workload& work, const DeviceParameters& parameters);

}  // namespace penstock

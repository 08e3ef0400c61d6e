#pragma once
// Computes the time of collectives in groups of devices. In a ring of n devices, each link carries (n-1)/n of
// the tensor, and twice as much for an all-reduce. Inside one NVLink domain, measured tables are used
// instead. Between domains, a group uses the network cards of all its members (group_bytes_per_second in
// workload.hpp).

#include <cstdint>
#include <vector>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// Returns the seconds of a group's collective. `bytes` has the meaning of KernelTables::collective_seconds.
/// Inside one NVLink domain it uses the measured table. Otherwise it uses the rate and latency of the network
/// cards.
double group_seconds(const Workload& work, const KernelTables& kernels, DeviceGroup group,
                     GroupOperation operation, double bytes);

/// Returns the seconds of a group's collective that runs between kernels, with no computation beside it. The
/// gaps around it and its copies slow NVLink down by the device's factor for collectives, which was measured
/// inside one NVLink domain. Network cards move their bytes at their own rate.
double exposed_group_seconds(const Workload& work, const KernelTables& kernels, DeviceGroup group,
                             GroupOperation operation, double bytes);

/// Returns the seconds of a collective among all copies of the `parameters`, without latency. Each parameter
/// has `bytes` bytes in the collective.
double copies_seconds(const Workload& work, const KernelTables& kernels, GroupOperation operation,
                      const DeviceParameters& parameters, double bytes);

// The exchanges between the copies of a weight, and the part of the state that each copy stores (ZeRO).

/// Returns the bytes of one weight when it is sent to other copies: 2, or 1 if products use 8 bits or less.
double gathered_bytes(const Workload& work);

/// Returns the part of a state (such as gradients) that one device stores. The whole state has the size
/// `held`. The copies divide it if the degree of sharding is at least `sharding`.
DeviceParameters held_from(const Parallel& parallel, std::int32_t sharding, const DeviceParameters& held);

/// The exposed seconds of the exchanges between copies in one microbatch. Unless stated otherwise, the times
/// of F, I and W include these seconds.
struct ShownCollectives {
  /// The seconds of gathering weights in the forward pass.
  double gathered_s = 0;
  /// The seconds of gathering weights in the backward pass.
  double gathered_again_s = 0;
  /// The seconds of scattering gradients.
  double scattered_s = 0;
  /// The seconds of gathering weights that computation of the backward pass hides. The times of F, I and W do
  /// not include them. Meanwhile, the link cannot reduce gradients.
  double hidden_again_s = 0;
  ShownCollectives& operator+=(const ShownCollectives& other) {
    gathered_s += other.gathered_s;
    gathered_again_s += other.gathered_again_s;
    scattered_s += other.scattered_s;
    hidden_again_s += other.hidden_again_s;
    return *this;
  }
};
/// Returns the exchanges of a layer. add_copies_terms() must have added them to `terms`.
ShownCollectives shown_collectives(const std::vector<Term>& terms);

/// Adds the exposed part of the exchanges in each microbatch, which does not overlap with the `terms` of the
/// layer. Sharding 2 and 3 scatter gradients, and sharding 3 gathers weights in both passes.
void add_copies_terms(std::vector<Term>& terms, const Workload& work, const KernelTables& kernels,
                      const DeviceParameters& parameters);

/// Returns the additional bytes while a layer runs. Its gradients (sharding 2 and 3) and weights (sharding 3)
/// must then be complete. At other times, a device stores only a part of them.
double whole_layer_bytes(const Workload& work, const DeviceParameters& parameters);
/// Returns the additional bytes while the weights of the next layer are gathered (sharding 3). It assumes
/// that the next layer has the same size.
double whole_weight_bytes(const Workload& work, const DeviceParameters& parameters);

}  // namespace penstock

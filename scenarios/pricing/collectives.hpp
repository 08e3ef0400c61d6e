#pragma once
// Computes the time of collectives in groups of devices. In a ring of n devices, each link carries (n-1)/n of
// the tensor, and twice as much for an all-reduce. The latency of a ring grows with n, because each of its
// steps waits for the step before. Inside one NVLink domain, measured tables are used instead. Between
// domains, a group uses the network cards of all its members (group_bytes_per_second in workload.hpp).

#include <cstdint>
#include <vector>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// Returns the seconds of one collective in a group of devices. `bytes` has the meaning that it has in
/// KernelTables::collective_seconds(). If the group is inside one NVLink domain, the time comes from the
/// measured table. Otherwise it follows from the rate and latency of the network cards.
double group_seconds(const Workload& work, const KernelTables& kernels, DeviceGroup group,
                     GroupOperation operation, double bytes);

/// Returns the seconds of a group's collective that runs between kernels, with no computation beside it.
/// NVLink is then slower by the device's factor for collectives, because of gaps and copies around the
/// collective. This factor was measured inside one NVLink domain. The time on network cards does not have
/// this factor.
double exposed_group_seconds(const Workload& work, const KernelTables& kernels, DeviceGroup group,
                             GroupOperation operation, double bytes);

/// Returns the seconds of an exchange among all copies of the `parameters`. Each parameter has `bytes` bytes
/// in the exchange. The exchange consists of `collectives` collectives (at least 1), which run one after the
/// other. Each has the latency of its ring.
double copies_seconds(const Workload& work, const KernelTables& kernels, GroupOperation operation,
                      const DeviceParameters& parameters, double bytes, double collectives = 1);

// The exchanges between the copies of a weight, and the part of the state that each copy stores (ZeRO).

/// Returns the bytes of one weight when it is sent to other copies: 2, or 1 if products use 8 bits or less.
double gathered_bytes(const Workload& work);

/// Returns the number of parameters whose state (such as gradients) one device stores. `held` is the number
/// of parameters of the whole state. The copies divide the state if Parallel::sharding is at least
/// `sharding`.
DeviceParameters held_from(const Parallel& parallel, std::int32_t sharding, const DeviceParameters& held);

/// The exposed seconds of the exchanges between data-parallel copies, for one microbatch. The times of F, I
/// and W include these seconds, except where a field says otherwise.
struct ShownCollectives {
  /// The seconds of gathering weights in the forward pass.
  double gathered_s = 0;
  /// The seconds of gathering weights in the backward pass.
  double gathered_again_s = 0;
  /// The seconds of scattering gradients.
  double scattered_s = 0;
  /// The seconds of gathering weights that overlap with computation of the backward pass. The times of F, I
  /// and W do not include them. During this time, the link cannot reduce gradients.
  double hidden_again_s = 0;
  /// The number of layers to which the other figures belong. The embedding and the head count as layers.
  double layers = 0;
  ShownCollectives& operator+=(const ShownCollectives& other) {
    gathered_s += other.gathered_s;
    gathered_again_s += other.gathered_again_s;
    scattered_s += other.scattered_s;
    hidden_again_s += other.hidden_again_s;
    layers += other.layers;
    return *this;
  }
};
/// Returns the exchanges between copies for one layer, as sums over its terms. add_copies_terms() must have
/// added the exchanges to `terms`.
ShownCollectives shown_collectives(const std::vector<Term>& terms);

/// Adds the exchanges between copies in each microbatch, as far as they do not overlap with the layer's
/// `terms`. Sharding 2 and 3 scatter gradients, and sharding 3 gathers weights in both passes.
void add_copies_terms(std::vector<Term>& terms, const Workload& work, const KernelTables& kernels,
                      const DeviceParameters& parameters);

/// Returns the additional bytes that a device holds while a layer runs. The gradients (sharding 2 and 3) and
/// weights (sharding 3) of this layer must then be complete. At other times, a device stores only a part of
/// them.
double whole_layer_bytes(const Workload& work, const DeviceParameters& parameters);
/// Returns the additional bytes that a device holds while the weights of the next layer are gathered
/// (sharding 3). The next layer is assumed to have the same size.
double whole_weight_bytes(const Workload& work, const DeviceParameters& parameters);

}  // namespace penstock

#pragma once
// The kernel tables that are built in: those of scenarios/library/kernels.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "scenarios/pricing/kernel_tables.hpp"
#include "topology/device_types.hpp"

namespace penstock {

struct KernelText {
  std::string_view file;  ///< "gemm_H100.csv"
  std::string_view text;
};
/// The files themselves. CMake writes the definition from them.
std::span<const KernelText> kernel_texts();

/// The tables of a kind of device, read when they are first asked for and shared from then on; safe to call
/// from several threads.
std::shared_ptr<const KernelTables> built_in_kernels(const DeviceType& device);

/// The same for the device as it is stated: where its peaks or its NVLink are not those of the device that
/// was measured, tables of its own, as much faster or slower (KernelTables::scale). Requires peaks and a
/// bandwidth > 0 where the measured device has them.
std::shared_ptr<const KernelTables> stated_kernels(const DeviceType& device);

}  // namespace penstock

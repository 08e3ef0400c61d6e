#pragma once
// The built-in kernel tables, which are those of scenarios/library/kernels.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "scenarios/pricing/kernel_tables.hpp"
#include "topology/device_types.hpp"

namespace penstock {

/// One built-in file.
struct KernelText {
  /// The name, such as "gemm_H100.csv".
  std::string_view file;
  std::string_view text;
};
/// Returns the built-in files. CMake generates the definition from them.
std::span<const KernelText> kernel_texts();

/// Returns the tables of a kind of device. They are read at the first call and shared afterwards. Safe to
/// call from several threads.
std::shared_ptr<const KernelTables> built_in_kernels(const DeviceType& device);

/// Returns the tables for the device as it is stated. If its peaks or its NVLink differ from the measured
/// device, they are scaled copies (KernelTables::scale). Requires peaks and a bandwidth > 0 for everything
/// that the measured device has.
std::shared_ptr<const KernelTables> stated_kernels(const DeviceType& device);

}  // namespace penstock

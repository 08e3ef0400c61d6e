#pragma once
// The kernel tables that are compiled into the program, from the files in scenarios/library/kernels.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "scenarios/pricing/kernel_tables.hpp"
#include "topology/device_types.hpp"

namespace penstock {

/// A built-in file with its name and its text.
struct KernelText {
  /// The file name, such as "gemm_H100.csv".
  std::string_view file;
  std::string_view text;
};
/// Returns the built-in files. CMake generates the definition of this function from them.
std::span<const KernelText> kernel_texts();

/// Returns the tables of a kind of device. The first call reads them, and later calls share them. Several
/// threads may call it.
std::shared_ptr<const KernelTables> built_in_kernels(const DeviceType& device);

/// Returns the tables for the device as a scenario states it. If its peaks or its NVLink differ from the
/// measured device, the tables are scaled copies (KernelTables::scale). Requires a peak and a bandwidth > 0
/// wherever the measured device has one.
std::shared_ptr<const KernelTables> stated_kernels(const DeviceType& device);

}  // namespace penstock

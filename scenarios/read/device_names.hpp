#pragma once
// The error message for a device with an unknown name.

#include <string>
#include <string_view>

namespace penstock {

/// Returns the error message for a device that is not in device_types(). It lists the known names and says
/// what to write instead. For a variant of a known device (an H800 is an H100 with a slower NVLink) it gives
/// the known device and the keys that differ. For a longer name it gives the known device that the name
/// contains. Otherwise it explains how to describe a device.
std::string unknown_device(std::string_view name);

}  // namespace penstock

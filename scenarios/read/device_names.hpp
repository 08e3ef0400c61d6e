#pragma once
// What to write for a device whose name is not known.

#include <string>
#include <string_view>

namespace penstock {

/// Returns the message about a device that is not in device_types(): the names that are there, and what to
/// write. That is the known device and the keys that describe a relative of it (an H800 is an H100 with a
/// slower NVLink), or the known device that a longer name contains, or how to write a device of one's own.
std::string unknown_device(std::string_view name);

}  // namespace penstock

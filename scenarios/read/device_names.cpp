// Suggests a device for an unknown name. Users type the output of nvidia-smi ("NVIDIA H100 80GB HBM3"),
// product names ("H100 PCIe") or devices that are unknown ("MI300X"). The name is cut into words, and the
// word that names a device decides:
//
//   NVIDIA H100 80GB HBM3    h100: did you mean h100-sxm?
//   h800                     a variant: cluster: {device: h100-sxm, nvlink: 200 GB/s}
//   NVIDIA H100 PCIe         a variant by "pcie": h100-sxm with other flops, memory_bandwidth and nvlink
//   mi300x                   none: how to describe a device
//
// Similar spelling does not count, because one different character may mean another device (B100, H20).

#include "scenarios/read/device_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "text/numbers.hpp"
#include "topology/device_types.hpp"
#include "topology/unit_factors.hpp"

namespace penstock {
namespace {

constexpr double kBytesPerGigabyte = 1e9;

/// A device that is sold under another name, with its differences from a known device.
struct Relative {
  std::string_view word;   ///< in small letters
  std::string_view known;  ///< the name of the known device
  std::string_view keys;   ///< the keys of `cluster` that differ, with their values
};

// The figures come from the vendors' data sheets. NVLink rates are the rates of one direction.
constexpr std::array<Relative, 3> kRelatives = {
    {{.word = "a800", .known = "a100-sxm", .keys = "nvlink: 200 GB/s"},
     {.word = "h800", .known = "h100-sxm", .keys = "nvlink: 200 GB/s"},
     {.word = "h20",
      .known = "h100-sxm",
      .keys = "flops: 148 TFLOP/s, fp8_flops: 296 TFLOP/s, memory: 96 GB, memory_bandwidth: 4 TB/s"}}};

/// Returns the words of a name in small letters. A word consists of letters and digits.
std::vector<std::string> name_words(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      words.back().push_back(static_cast<char>(std::tolower(byte)));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

/// Returns the part of the name before '-', such as "h100" for "h100-sxm".
std::string_view family_of(const DeviceType& type) {
  return std::string_view(type.name).substr(0, type.name.find('-'));
}

/// Returns the known device that a word names, such as "h100" or "h100sxm5", or null.
const DeviceType* device_named(std::string_view word) {
  for (const DeviceType& type : device_types()) {
    const std::string_view family = family_of(type);
    if (word == family || (word.starts_with(family) && word.substr(family.size()).starts_with("sxm")))
      return &type;
  }
  return nullptr;
}

/// Returns the gigabytes that a word such as "40gb" states.
std::optional<std::int64_t> gigabytes(std::string_view word) {
  const auto amount = leading_number<std::int64_t>(word);
  const std::string_view unit = word.substr(amount.spelling.size());
  return unit == "g" || unit == "gb" ? amount.value : std::nullopt;
}

/// Returns " Write memory: 40 GB beside it" if a word states another memory than the device has. Returns
/// an empty text otherwise.
std::string other_memory(const DeviceType& type, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const auto stated = gigabytes(word);
    // Product names round the size, and mean gigabytes or gibibytes.
    const auto has = static_cast<double>(type.memory_bytes);
    const bool is_same = stated && static_cast<double>(*stated) * kBytesPerGigabyte <= has * 1.05 &&
                         static_cast<double>(*stated) * kBytesPerGibibyte >= has * 0.95;
    if (stated && !is_same) return fmt::format(" Write memory: {} GB beside it", *stated);
  }
  return "";
}

std::string hint_for(std::string_view name) {
  const std::vector<std::string> words = name_words(name);
  const auto has_word = [&](std::string_view word) { return std::ranges::find(words, word) != words.end(); };
  for (const Relative& relative : kRelatives) {
    if (has_word(relative.word)) {
      return fmt::format("; write it as cluster: {{device: {}, {}}}, or with --set cluster.KEY=VALUE",
                         relative.known, relative.keys);
    }
  }
  for (const std::string& word : words) {
    const DeviceType* type = device_named(word);
    if (type == nullptr) continue;
    // Cards without the full NVLink have lower values for nearly all figures.
    if (has_word("pcie") || has_word("nvl")) {
      return fmt::format(
          "; write it as device: {} with its own flops, memory, memory_bandwidth and nvlink beside it",
          type->name);
    }
    return fmt::format("; did you mean {}?{}", type->name, other_memory(*type, words));
  }
  return "; write a device of your own as a known one with its own figures beside it, such as device: "
         "h100-sxm "
         "with flops, memory, memory_bandwidth, nvlink, network and kernels (tables that were measured on "
         "it)";
}

}  // namespace

std::string unknown_device(std::string_view name) {
  return fmt::format("expected one of {}, got \"{}\"{}", device_type_names(), name, hint_for(name));
}

}  // namespace penstock

// Reads the built-in kernel tables. Reading takes some milliseconds, so the tables are cached by the device's
// name. If a file is missing, the models of KernelTables are used instead. A file that cannot be read is an
// error of the build. Tested by kernel_tables_test.cpp.

#include "scenarios/pricing/kernel_library.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "scenarios/pricing/gemm_model.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/workload.hpp"
#include "topology/device_types.hpp"

namespace penstock {
namespace {

/// Returns the text of a file, or an empty text if there is no such file.
std::string_view text_of(std::string_view file) {
  const auto found = std::ranges::find(kernel_texts(), file, &KernelText::file);
  return found == kernel_texts().end() ? std::string_view() : found->text;
}

void must_be_read(const tl::expected<void, std::string>& read, const std::string& file) {
  if (!read) throw std::logic_error(fmt::format("{}:{}", file, read.error()));
}

/// Reads {"H100/fp8": [e, kk, s, bw, t0, tail, q], ..}. A precision that the device does not support has no
/// entry.
void set_models(KernelTables& tables, std::string_view device) {
  static const nlohmann::json constants = nlohmann::json::parse(text_of("gemm_constants.json"));
  for (const GemmPrecision precision : {GemmPrecision::bf16, GemmPrecision::fp8, GemmPrecision::fp4}) {
    const auto found = constants.find(fmt::format("{}/{}", device, to_text(precision)));
    if (found == constants.end()) continue;
    const auto c = found->get<std::array<double, 7>>();
    tables.set_gemm_model(precision, {.tile_efficiency = c[0],
                                      .extra_depth = c[1],
                                      .small_tiles = c[2],
                                      .memory_efficiency = c[3],
                                      .launch_us = c[4],
                                      .tail = c[5],
                                      .quantise = c[6]});
  }
}

/// Returns the device on which the kernels were measured, without changes by a scenario. All callers share
/// tables that are read once.
const DeviceType& measured_device(std::string_view kernels) {
  return *std::ranges::find(device_types(), kernels, &DeviceType::kernels);
}

std::shared_ptr<const KernelTables> read_tables(const std::string& kernels) {
  auto tables = std::make_shared<KernelTables>();
  // The models come first, because their constants determine how much of a table's time belongs to
  // quantising.
  set_models(*tables, kernels);
  const DeviceRates rates = rates_of(measured_device(kernels), GemmPrecision::bf16);
  const std::string gemms = fmt::format("gemm_{}.csv", kernels);
  const std::string attention = fmt::format("attention_{}.csv", kernels);
  const std::string collectives = fmt::format("collectives_{}.csv", kernels);
  if (const auto text = text_of(gemms); !text.empty()) must_be_read(tables->read_gemms(text, rates), gemms);
  if (const auto text = text_of(attention); !text.empty()) {
    must_be_read(tables->read_attention(text), attention);
  }
  if (const auto text = text_of(collectives); !text.empty()) {
    must_be_read(tables->read_collectives(text), collectives);
  }
  return tables;
}

/// Returns the device's rates divided by the rates of the measured device, and the efficiency of links. A
/// rate that the measured device lacks has no factor.
KernelSpeeds speeds_of(const DeviceType& device) {
  const DeviceType& measured = measured_device(device.kernels);
  KernelSpeeds speeds;
  for (const GemmPrecision precision : {GemmPrecision::bf16, GemmPrecision::fp8, GemmPrecision::fp4}) {
    const double usual = peak_flops(measured, precision);
    if (usual > 0)
      speeds.products[static_cast<std::size_t>(precision)] = peak_flops(device, precision) / usual;
  }
  speeds.links = device.link_bytes_per_second(true) / measured.link_bytes_per_second(true);
  return speeds;
}

}  // namespace

std::shared_ptr<const KernelTables> built_in_kernels(const DeviceType& device) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const KernelTables>, std::less<>> known;
  // The lock is held during reading, because other threads would only read the same tables.
  const std::scoped_lock lock(mutex);
  auto& tables = known[device.kernels];
  if (!tables) tables = read_tables(device.kernels);
  return tables;
}

std::shared_ptr<const KernelTables> stated_kernels(const DeviceType& device) {
  std::shared_ptr<const KernelTables> measured = built_in_kernels(device);
  const KernelSpeeds speeds = speeds_of(device);
  if (speeds == KernelSpeeds{}) return measured;
  auto own = std::make_shared<KernelTables>(*measured);
  own->scale(speeds);
  return own;
}

}  // namespace penstock

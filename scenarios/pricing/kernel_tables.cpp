// Reads tables of measured kernel times and looks up times in them:
//
//  * The measured time of a product of 8 or 4 bits includes the quantisation of its input. Training fuses the
//    quantisation into other kernels, so its time is subtracted. At least a quarter of the measured time
//    remains. The result is a rate in operations a second. It is interpolated linearly in the logarithms of
//    m, n and k. Outside the table, the rate is constant.
//  * The rate of causal forward attention is interpolated linearly in the logarithms of heads and sequence.
//    For the head dimension, the number of sequences, and the ratio of heads to key heads, the nearest
//    measured values are used.
//  * The time of a collective is interpolated linearly in logarithms between two sizes. Above the largest
//    size its bandwidth applies. A group of n uses the largest measured group of m <= n, times
//    ((n-1)/n) / ((m-1)/m), the ratio of the parts of a tensor that a device receives from others.
//  * The rates of grouped products are shares of the peak. They come from one machine of B200, and other
//    devices take the same shares of their own peaks (GroupedRates).
//  * If a scenario states a device that is s times as fast, the rates of products and attention are
//    multiplied by s. The time of the smallest measured message of a collective is treated as latency and
//    does not change. The additional time of larger messages is divided by s.
//
// Tested by kernel_tables_test.cpp.

#include "scenarios/pricing/kernel_tables.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "scenarios/pricing/workload.hpp"
#include "text/csv_table.hpp"
#include "topology/presets.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

constexpr double kMilli = 1e-3;
/// The smallest share of a measured time that may remain after the time to quantise is subtracted. The
/// subtracted time comes from a model. For some small products, it is almost as long as the measured time,
/// or longer.
constexpr double kLeastPart = 0.25;
constexpr double kHalfBytes = 2;
constexpr double kMostInGroup = 1 << 20;  // devices of a group

/// The smallest and the largest value that a table cell may have. These limits prevent products that overflow
/// and quotients that become 0.
constexpr double kLeastOfACell = 1e-30;
constexpr double kMostOfACell = 1e30;

/// Returns the numbers in the given columns of one table row, in the order of `columns`. Returns an error if
/// a number is not positive.
template <std::size_t Count>
tl::expected<std::array<double, Count>, std::string> positives(
    const CsvTable& table, std::size_t row, const std::array<std::string_view, Count>& columns) {
  std::array<double, Count> figures{};
  for (std::size_t i = 0; i < Count; ++i) {
    const auto figure = table.positive(row, columns[i]);
    if (!figure) return tl::unexpected(figure.error());
    if (*figure < kLeastOfACell || *figure > kMostOfACell) {
      return tl::unexpected(fmt::format("{}: {}: expected a number from {} to {}, got \"{}\"",
                                        table.line(row), columns[i], kLeastOfACell, kMostOfACell,
                                        table.cell(row, columns[i])));
    }
    figures[i] = *figure;
  }
  return figures;
}

/// Returns an error if the grid of a table would be too large, or an empty text. A grid has a cell for every
/// combination of the values of m, n and k. So shapes without common sizes need very many cells.
std::string grid_fault(const std::map<std::array<double, 3>, double>& figures) {
  constexpr std::size_t kMostCells = std::size_t{1} << 20;  // the built-in grids have 3,249
  std::array<std::set<double>, 3> sizes;
  for (const auto& [shape, rate] : figures) {
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) sizes[axis].insert(shape[axis]);
  }
  const auto count = [&](std::size_t axis) { return static_cast<double>(sizes[axis].size()); };
  if (count(0) * count(1) * count(2) <= static_cast<double>(kMostCells)) return "";
  return fmt::format(
      "1: expected products of a grid of sizes, at most {} of them, got {} rows with {} m, {} n and {} k; "
      "single shapes are a table of `products`",
      kMostCells, figures.size(), count(0), count(1), count(2));
}

/// Returns the floating-point operations of causal attention. Causal attention computes half of two matrix
/// products, and each product needs 2 operations a value.
double attention_flops(const AttentionShape& shape) {
  return 2 * shape.head_dim * shape.heads * shape.batch * shape.sequence * shape.sequence;
}

/// Returns the distance of the logarithms of two numbers. For example, the distance from 1 to 2 equals the
/// distance from 2 to 4.
double log_distance(double a, double b) { return std::abs(std::log(a / b)); }

/// Returns the value of the table `figures` at `size`, interpolated linearly in logarithms between the two
/// nearest sizes. Outside the table it returns the first or the last value.
double between(const std::map<double, double>& figures, double size) {
  const auto upper = figures.lower_bound(size);
  // There is no smaller measured size. This is also the case if `size` equals the first measured size.
  if (upper == figures.begin()) return upper->second;
  const auto lower = std::prev(upper);
  if (upper == figures.end()) return lower->second;
  const double way = std::log(size / lower->first) / std::log(upper->first / lower->first);
  return std::exp((1 - way) * std::log(lower->second) + way * std::log(upper->second));
}

/// Scales the measured times of one collective to a link with another speed. `times` maps message sizes in
/// bytes to seconds. The time of the smallest message counts as latency and does not change. A larger
/// message with a shorter time is measurement noise and does not change either.
void set_link_speed(std::map<double, double>& times, double speed) {
  const double latency_s = times.begin()->second;
  for (auto& [bytes, seconds] : times) {
    if (seconds > latency_s) seconds += (seconds - latency_s) * (1 / speed - 1);
  }
}

}  // namespace

double value_bytes(GemmPrecision precision) {
  switch (precision) {
    case GemmPrecision::bf16:
      return 2;
    case GemmPrecision::fp8:
      return 1;
    case GemmPrecision::fp4:
      return 0.5;
  }
  return 2;
}

// --- reading --------------------------------------------------------------------------------------------

tl::expected<void, std::string> KernelTables::read_gemms(std::string_view text, const DeviceRates& rates) {
  static constexpr std::array<std::string_view, 5> kColumns = {"dtype", "m", "n", "k", "us"};
  static constexpr std::array<std::string_view, 4> kFigures = {"m", "n", "k", "us"};
  const auto table = CsvTable::parse(text, kColumns);
  if (!table) return tl::unexpected(table.error());
  std::array<std::map<std::array<double, 3>, double>, kGemmPrecisionCount> figures;
  for (std::size_t row = 0; row < table->row_count(); ++row) {
    const auto precision = enum_of_text<GemmPrecision>(table->cell(row, "dtype"));
    if (!precision) continue;  // training does not use products of other types
    const auto sizes = positives(*table, row, kFigures);
    if (!sizes) return tl::unexpected(sizes.error());
    const auto [m, n, k, us] = *sizes;
    const auto& model = models_[index_of(*precision)];
    // The time of quantising is computed from the model's constants, so these must be set before tables are
    // read.
    const double quantising_s = model ? quantising_seconds(m, k, *model, rates) : 0;
    const double seconds =
        std::max(us * kSecondsPerMicrosecond - quantising_s, kLeastPart * us * kSecondsPerMicrosecond);
    figures[index_of(*precision)][{m, n, k}] = GemmShape{.m = m, .n = n, .k = k}.flops() / seconds;
  }
  for (const auto& of_precision : figures) {
    if (std::string fault = grid_fault(of_precision); !fault.empty()) return tl::unexpected(fault);
  }
  for (std::size_t i = 0; i < kGemmPrecisionCount; ++i) {
    if (!figures[i].empty()) gemms_[i] = LogGrid<3>(figures[i]);
  }
  return {};
}

tl::expected<void, std::string> KernelTables::read_attention(std::string_view text) {
  static constexpr std::array<std::string_view, 7> kColumns = {"dtype", "head_dim", "heads", "kv_heads",
                                                               "batch", "seq",      "us"};
  static constexpr std::array<std::string_view, 6> kFigures = {"head_dim", "heads", "kv_heads",
                                                               "batch",    "seq",   "us"};
  const auto table = CsvTable::parse(text, kColumns);
  if (!table) return tl::unexpected(table.error());
  std::map<std::pair<double, double>, AttentionGrid> grids;
  for (std::size_t row = 0; row < table->row_count(); ++row) {
    if (table->cell(row, "dtype") != "bf16") continue;
    const auto sizes = positives(*table, row, kFigures);
    if (!sizes) return tl::unexpected(sizes.error());
    const auto [head_dim, heads, kv_heads, batch, sequence, us] = *sizes;
    AttentionGrid& grid = grids[{head_dim, batch}];
    grid.head_dim = head_dim;
    grid.batch = batch;
    const double flops = attention_flops(
        {.head_dim = head_dim, .heads = heads, .kv_heads = kv_heads, .batch = batch, .sequence = sequence});
    grid.rates[{heads, kv_heads}][sequence] = flops / (us * kSecondsPerMicrosecond);
  }
  attention_.clear();
  for (auto& [key, grid] : grids) attention_.push_back(std::move(grid));
  return {};
}

tl::expected<void, std::string> KernelTables::read_products(std::string_view text) {
  return ProductTable::parse(text).map([this](ProductTable&& products) { products_ = std::move(products); });
}

tl::expected<void, std::string> KernelTables::read_collectives(std::string_view text) {
  static constexpr std::array<std::string_view, 5> kColumns = {"op_name", "nccl_dtype", "num_gpus",
                                                               "message_size", "latency"};
  static constexpr std::array<std::string_view, 3> kFigures = {"num_gpus", "message_size", "latency"};
  static constexpr std::array<std::string_view, kGroupOperationCount> kOperations = {
      "all_gather", "reduce_scatter", "all_reduce", "alltoall"};
  const auto table = CsvTable::parse(text, kColumns);
  if (!table) return tl::unexpected(table.error());
  collectives_ = {};
  for (std::size_t row = 0; row < table->row_count(); ++row) {
    const auto operation = std::ranges::find(kOperations, table->cell(row, "op_name"));
    if (operation == kOperations.end() || table->cell(row, "nccl_dtype") != "half") continue;
    const auto sizes = positives(*table, row, kFigures);
    if (!sizes) return tl::unexpected(sizes.error());
    const auto [devices, elements, milliseconds] = *sizes;
    if (devices != std::floor(devices) || devices > kMostInGroup) {
      return tl::unexpected(fmt::format("{}: num_gpus: expected a whole number of at most {}, got {}",
                                        table->line(row), kMostInGroup, devices));
    }
    // A group of one device does not communicate, and scaling its time to a larger group would divide by 0.
    if (devices < 2) continue;
    auto& group = collectives_[static_cast<std::size_t>(std::distance(kOperations.begin(), operation))];
    group[static_cast<std::int32_t>(devices)][elements * kHalfBytes] = milliseconds * kMilli;
  }
  return {};
}

void KernelTables::set_gemm_model(GemmPrecision precision, const GemmConstants& constants) {
  models_[index_of(precision)] = constants;
}

void KernelTables::scale(const KernelSpeeds& speeds) {
  for (std::size_t i = 0; i < kGemmPrecisionCount; ++i) gemms_[i].scale(speeds.products[i]);
  const double attention_speed = speeds.products[index_of(GemmPrecision::bf16)];
  for (AttentionGrid& grid : attention_) {
    for (auto& [heads, rates] : grid.rates) {
      for (auto& [sequence, rate] : rates) rate *= attention_speed;
    }
  }
  for (auto& of_operation : collectives_) {
    for (auto& [devices, times] : of_operation) set_link_speed(times, speeds.links);
  }
}

// --- looking up -----------------------------------------------------------------------------------------

std::optional<double> KernelTables::gemm_seconds(GemmPrecision precision, const GemmShape& shape,
                                                 const DeviceRates& rates) const {
  if (const LogGrid<3>& table = gemms_[index_of(precision)]; !table.empty()) {
    return shape.flops() / table.at({shape.m, shape.n, shape.k});
  }
  const auto& model = models_[index_of(precision)];
  if (!model) return std::nullopt;
  // The result does not include quantising, because the times in tables do not include it after reading.
  return modelled_gemm_seconds(shape.m, shape.n, shape.k, value_bytes(precision), *model, rates) -
         quantising_seconds(shape.m, shape.k, *model, rates);
}

const KernelTables::AttentionGrid* KernelTables::nearest_attention(const AttentionShape& shape) const {
  const auto distance = [&](const AttentionGrid& grid) {
    // The head dimension is compared first, because it decides which kernel runs. The batch matters less.
    return std::pair(log_distance(grid.head_dim, shape.head_dim), log_distance(grid.batch, shape.batch));
  };
  const auto nearest = std::ranges::min_element(attention_, {}, distance);
  return nearest == attention_.end() ? nullptr : &*nearest;
}

std::optional<double> KernelTables::attention_rate(const AttentionShape& shape) const {
  const AttentionGrid* grid = nearest_attention(shape);
  if (grid == nullptr) return std::nullopt;
  // For each number of heads, the measurement with the nearest ratio of heads to key heads is used.
  const double ratio = shape.heads / shape.kv_heads;
  std::map<double, double> by_heads;
  std::map<double, double> distances;
  for (const auto& [heads, rates] : grid->rates) {
    const double distance = log_distance(heads.first / heads.second, ratio);
    const auto best = distances.find(heads.first);
    // If two ratios are equally near, the smaller number of key heads is used. It comes first in the table.
    if (best != distances.end() && best->second <= distance) continue;
    distances[heads.first] = distance;
    by_heads[heads.first] = between(rates, shape.sequence);
  }
  return between(by_heads, shape.heads);
}

std::optional<double> KernelTables::collective_seconds(GroupOperation operation, std::int32_t devices,
                                                       double bytes) const {
  if (devices <= 1 || bytes <= 0) return 0;
  const auto& groups = collectives_[static_cast<std::size_t>(operation)];
  if (groups.empty()) return std::nullopt;
  auto measured = groups.upper_bound(devices);
  // The variable `measured` now points to the largest group up to the requested size. If all groups are
  // larger, it points to the smallest one.
  if (measured != groups.begin()) measured = std::prev(measured);
  const auto& [size, times] = *measured;
  const auto other_part = [](double n) { return (n - 1) / n; };
  const auto& largest = *times.rbegin();
  const double seconds =
      bytes > largest.first ? largest.second * bytes / largest.first : between(times, bytes);
  return seconds * other_part(devices) / other_part(size);
}

// The built-in kernel tables are cached for each device, because reading takes some milliseconds. If a file
// is missing, the models of KernelTables are used. A file with an error is an error of the build.

namespace {

/// Returns the text of a table file that is built into the program, or an empty text if there is no such
/// file.
std::string_view text_of(std::string_view file) {
  const auto found = std::ranges::find(kernel_texts(), file, &KernelText::file);
  return found == kernel_texts().end() ? std::string_view() : found->text;
}

void must_be_read(const tl::expected<void, std::string>& read, const std::string& file) {
  if (!read) throw std::logic_error(fmt::format("{}:{}", file, read.error()));
}

/// Sets the constants of the formula for matrix products, for each precision of the device. They come from
/// entries such as {"H100/fp8": [e, kk, s, bw, t0, tail, q], ..}. Precisions that the device lacks have no
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

/// Returns the device on which the kernels were measured, with its original constants.
const DeviceType& measured_device(std::string_view kernels) {
  return *std::ranges::find(device_types(), kernels, &DeviceType::kernels);
}

/// Returns the rates of grouped products, as shares of a device's peak. They were measured on one machine
/// of B200 only. Its products ran in long runs, so the sustained factor of the device is divided out. Other
/// devices use the same shares of their own peak.
GroupedRates read_grouped() {
  static constexpr std::string_view kFile = "products_B200.csv";
  const auto products = ProductTable::parse(text_of(kFile));
  if (!products) throw std::logic_error(fmt::format("{}:{}", kFile, products.error()));
  const DeviceType& measured = measured_device("B200");
  return products->grouped_rates(measured.bf16_flops_per_second / measured.sustained);
}

std::shared_ptr<const KernelTables> read_tables(const std::string& kernels) {
  auto tables = std::make_shared<KernelTables>();
  tables->set_grouped(read_grouped());
  // The models come first, because reading a table needs their constants to subtract the quantising.
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

/// Returns the rates of the device divided by those of the device on which the kernels were measured. The
/// rates of links include their efficiency. If the measured device lacks a rate, its factor is 1.
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
  // The lock is held while the tables are read, because other threads usually need the same tables.
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

// Models a product that is divided into tiles of tm x tn. The multiprocessors compute the tiles in w =
// ceil(m/tm) ceil(n/tn) / SMs waves. The result is the best of six tile sizes:
//
//   waves  = (1 - tail) ceil(w) + tail max(w, 1)        a last wave that is not full costs up to a full one
//   rel    = min(1, (tm tn / 32768)^s)                  small tiles load more for each operation
//   t_tile = waves 2 tm tn (k + kk) / (e rel peak / SMs)
//   t_mem  = bytes of X, W and Y / (bw x memory rate)
//   t      = t0 + q m k / memory rate + (t_tile^4 + t_mem^4)^(1/4)
//
// Each device and precision has seven constants. For shapes of at least 1024 that were not used in the fit,
// the error is 4 to 7 %. kernel_tables.cpp uses measured products instead if they exist. Tested by
// kernel_tables_test.cpp.

#include "scenarios/pricing/gemm_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "topology/unit_factors.hpp"

namespace penstock {
namespace {

struct Tile {
  double m;
  double n;
};
constexpr std::array<Tile, 6> kTiles = {{{.m = 256, .n = 128},
                                         {.m = 128, .n = 256},
                                         {.m = 128, .n = 128},
                                         {.m = 128, .n = 64},
                                         {.m = 64, .n = 128},
                                         {.m = 256, .n = 256}}};
constexpr double kFullTile = 32768;
/// The share of the launch overhead that belongs to the separate kernel for quantising.
constexpr double kQuantisingLaunch = 0.6;

}  // namespace

double modelled_gemm_seconds(double m, double n, double k, double value_bytes, const GemmConstants& constants,
                             const DeviceRates& rates) {
  double tiles_s = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double w = std::ceil(m / tile.m) * std::ceil(n / tile.n) / rates.multiprocessors;
    const double waves = (1 - constants.tail) * std::ceil(w) + constants.tail * std::max(w, 1.0);
    const double relative = std::min(1.0, std::pow(tile.m * tile.n / kFullTile, constants.small_tiles));
    const double rate = constants.tile_efficiency * relative * rates.flops_per_second / rates.multiprocessors;
    tiles_s = std::min(tiles_s, waves * 2 * tile.m * tile.n * (k + constants.extra_depth) / rate);
  }
  // X and W have values of the product's precision, while Y always has 2 bytes.
  const double bytes = value_bytes * (m * k + k * n) + 2 * m * n;
  const double memory_s = bytes / (constants.memory_efficiency * rates.memory_bytes_per_second);
  // This soft maximum is the larger of both times if they differ much. If they are equal, it is a fifth more,
  // because computation and transfers then disturb each other.
  const double overlapped_s = std::pow(std::pow(tiles_s, 4) + std::pow(memory_s, 4), 0.25);
  return constants.launch_us * kSecondsPerMicrosecond +
         constants.quantise * m * k / rates.memory_bytes_per_second + overlapped_s;
}

double quantising_seconds(double m, double k, const GemmConstants& constants, const DeviceRates& rates) {
  if (constants.quantise == 0) return 0;  // 16-bit products read their input directly
  return constants.quantise * m * k / rates.memory_bytes_per_second +
         kQuantisingLaunch * constants.launch_us * kSecondsPerMicrosecond;
}

}  // namespace penstock

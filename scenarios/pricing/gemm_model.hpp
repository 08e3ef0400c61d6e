#pragma once
// A model for the time of a matrix product for which no kernel was measured: tiles, waves of tiles over the
// multiprocessors, memory.

namespace penstock {

/// The rates of a device.
struct DeviceRates {
  /// The dense rate in the product's precision, greater than 0.
  double flops_per_second = 0;
  double memory_bytes_per_second = 0;
  double multiprocessors = 1;
};

/// The constants of the model, fitted for one device and precision.
struct GemmConstants {
  /// The constant e: the share of the peak that a wave of large tiles reaches.
  double tile_efficiency = 1;
  /// The constant kk: the cost of a tile's start and end, in steps of k.
  double extra_depth = 0;
  /// The constant s: how fast the rate falls for small tiles.
  double small_tiles = 0;
  /// The constant bw.
  double memory_efficiency = 1;
  /// The constant t0.
  double launch_us = 0;
  /// The share of the last wave's idle time that counts.
  double tail = 1;
  /// The constant q: the bytes that quantising moves for each element of the m x k input.
  double quantise = 0;
};

/// Returns the seconds of Y[m, n] = X[m, k] W[k, n] with values of `value_bytes`, including the quantising of
/// X.
double modelled_gemm_seconds(double m, double n, double k, double value_bytes, const GemmConstants& constants,
                             const DeviceRates& rates);
/// Returns the seconds of quantising in that time, which a fused product does not need. The rows of tables
/// contain it, too.
double quantising_seconds(double m, double k, const GemmConstants& constants, const DeviceRates& rates);

}  // namespace penstock

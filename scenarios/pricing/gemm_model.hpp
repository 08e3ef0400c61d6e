#pragma once
// Models the time of a matrix product that was not measured. The model counts tiles, waves of tiles over the
// multiprocessors, and memory transfers. The top of gemm_model.cpp has the formulas with the symbols used
// here.

namespace penstock {

/// The arithmetic and memory rates of a device.
struct DeviceRates {
  /// The dense rate of the device in the product's precision, greater than 0.
  double flops_per_second = 0;
  double memory_bytes_per_second = 0;
  double multiprocessors = 1;
};

/// The constants of the model, fitted for one device and precision.
struct GemmConstants {
  /// The constant e, which is the share of the peak that a wave of large tiles reaches.
  double tile_efficiency = 1;
  /// The constant kk, which is the cost of the start and end of a tile, in steps of k.
  double extra_depth = 0;
  /// The constant s, which determines how fast the rate falls for small tiles.
  double small_tiles = 0;
  /// The constant bw, which is the share of the memory rate that a product reaches.
  double memory_efficiency = 1;
  /// The constant t0, which is the launch overhead.
  double launch_us = 0;
  /// The constant tail, which is the counted share of the last wave's idle time.
  double tail = 1;
  /// The constant q, which is the number of bytes that quantising moves for each element of the m x k input.
  double quantise = 0;
};

/// Returns the seconds of Y[m, n] = X[m, k] W[k, n] for values of `value_bytes`. The time includes the
/// quantising of X.
double modelled_gemm_seconds(double m, double n, double k, double value_bytes, const GemmConstants& constants,
                             const DeviceRates& rates);
/// Returns the part of modelled_gemm_seconds() for quantising, which a fused product does not need. Measured
/// times in tables also contain this part.
double quantising_seconds(double m, double k, const GemmConstants& constants, const DeviceRates& rates);

}  // namespace penstock

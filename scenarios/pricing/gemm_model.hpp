#pragma once
// What a matrix product takes where no kernel was measured: tiles, waves of them over the multiprocessors,
// memory.

namespace penstock {

/// What a device computes and moves.
struct DeviceRates {
  double flops_per_second = 0;  ///< dense, of the product's precision; > 0
  double memory_bytes_per_second = 0;
  double multiprocessors = 1;
};

/// Fitted for one device and precision.
struct GemmConstants {
  double tile_efficiency = 1;    ///< e: part of the peak that a wave of large tiles reaches
  double extra_depth = 0;        ///< kk: what a tile's start and end cost, in steps of k
  double small_tiles = 0;        ///< s: how fast small tiles lose
  double memory_efficiency = 1;  ///< bw
  double launch_us = 0;          ///< t0
  double tail = 1;               ///< part of the last wave's idle time that counts
  double quantise = 0;           ///< q: bytes an element of the m x k input that quantising it moves
};

/// Seconds of Y[m, n] = X[m, k] W[k, n] with values of `value_bytes`, quantising X with it.
double modelled_gemm_seconds(double m, double n, double k, double value_bytes, const GemmConstants& constants,
                             const DeviceRates& rates);
/// The part of it that quantising is, which a fused product does not have; as tables have it, too.
double quantising_seconds(double m, double k, const GemmConstants& constants, const DeviceRates& rates);

}  // namespace penstock

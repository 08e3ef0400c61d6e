#pragma once
/// @file
/// Builds clusters of devices and links, and finds the routes between devices.
///
/// Stable names: @ref penstock::Cluster, @ref penstock::ClusterBuilder, @ref penstock::Device,
/// @ref penstock::Link, @ref penstock::Route, @ref penstock::uniform_cluster,
/// @ref penstock::two_level_cluster, @ref penstock::torus_cluster, @ref penstock::find_preset.
///
/// @code{.cpp}
/// penstock::ClusterBuilder builder("two servers");
/// const std::int32_t a = builder.add_device({.name = "a"});
/// const std::int32_t b = builder.add_device({.name = "b"});
/// const std::int32_t between = builder.add_switch("switch");
/// builder.add_duplex_link(a, between, 25e9, 2'000);
/// builder.add_duplex_link(b, between, 10e9, 2'000);
/// const penstock::Route route = builder.build().value().route(0, 1);
/// std::cout << route.bytes_per_second / 1e9 << " GB/s\n";  // 10 GB/s
/// std::cout << route.latency_ns << " ns\n";                // 4000 ns
/// @endcode

#include "topology/cluster.hpp"  // IWYU pragma: export
#include "topology/presets.hpp"  // IWYU pragma: export

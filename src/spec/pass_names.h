// The names of the search passes that a job can switch off, as jobs, reports and docs write them.
#pragma once

#include <array>

namespace ferry::pass_name {

inline constexpr const char* kActivations = "activations";
inline constexpr const char* kHomes = "homes";
inline constexpr const char* kRings = "rings";
inline constexpr const char* kUpdates = "updates";
inline constexpr const char* kMapping = "mapping";
inline constexpr const char* kCuts = "cuts";
inline constexpr const char* kEvenCuts = "even-cuts";
inline constexpr const char* kCrossMapping = "cross-mapping";
inline constexpr const char* kMixed = "mixed";
inline constexpr const char* kP2p = "p2p";
inline constexpr const char* kBlocks = "blocks";
inline constexpr const char* kNormFirst = "norm-first";
inline constexpr const char* kRounds = "rounds";

/// What `plan.without` may name; docs/planner.md says what each does.
inline constexpr std::array kAll = {kActivations, kHomes,     kRings,        kUpdates, kMapping,
                                    kCuts,        kEvenCuts,  kCrossMapping, kMixed,   kP2p,
                                    kBlocks,      kNormFirst, kRounds};

}  // namespace ferry::pass_name

// The names of strategies, as jobs, plans and tables write them.
#pragma once

#include <array>

namespace ferry::strategy_name {

inline constexpr const char* kAuto = "auto";
inline constexpr const char* kResident = "resident";
inline constexpr const char* kMobius = "mobius";
inline constexpr const char* kHarmonyDp = "harmony-dp";
inline constexpr const char* kHarmonyPp = "harmony-pp";
inline constexpr const char* kRoundPipe = "roundpipe";
inline constexpr const char* kZero = "zero";
inline constexpr const char* kGpipe = "gpipe";
inline constexpr const char* kOneFOneB = "1f1b";
inline constexpr const char* kInterleaved = "interleaved";
inline constexpr const char* kMixedPipe = "mixed-pipe";
inline constexpr const char* kAsyncOneFOneB = "async-1f1b";
inline constexpr const char* kFuyouSerial = "fuyou-serial";
inline constexpr const char* kFuyouNaive = "fuyou-naive";
inline constexpr const char* kFuyou = "fuyou";

/// What a job's `strategy` may be, in the order in which messages and docs list them.
inline constexpr std::array kAll = {
    kAuto,     kResident,    kMobius,    kHarmonyDp,     kHarmonyPp,   kRoundPipe,  kZero, kGpipe,
    kOneFOneB, kInterleaved, kMixedPipe, kAsyncOneFOneB, kFuyouSerial, kFuyouNaive, kFuyou};

}  // namespace ferry::strategy_name

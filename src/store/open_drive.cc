#include "store/open_drive.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <system_error>

#include "base/check.h"
#include "base/drive_page.h"
#include "base/error.h"
#include "store/mapping.h"
#include "store/thread_engine.h"
#include "store/uring_engine.h"

namespace ferry {
namespace {

constexpr std::chrono::seconds kProbeLimit{30};

/// Moves all of `memory` at the beginning of the file. Returns why it could not, or nothing.
std::string probe(IoEngine& engine, IoKind kind, std::span<std::byte> memory) {
  const std::string what = kind == IoKind::write ? "write" : "read";
  engine.start({.kind = kind, .offset = 0_B, .memory = memory, .token = 0});
  const auto end = std::chrono::steady_clock::now() + kProbeLimit;
  while (std::chrono::steady_clock::now() < end) {
    for (const IoCompletion& completion : engine.wait(kProbeLimit)) {
      if (completion.result == static_cast<std::int64_t>(memory.size())) return {};
      if (completion.result >= 0) return what + ": " + std::to_string(completion.result) + " bytes";
      return what + ": " + std::generic_category().message(static_cast<int>(-completion.result));
    }
  }
  return what + ": no answer within " + std::to_string(kProbeLimit.count()) + " s";
}

/// Writes a page of numbers and reads it back. Returns why that failed, or nothing.
std::string probe(IoEngine& engine) {
  const Mapping memory(2 * kDrivePage);
  const std::size_t size = memory.bytes().size() / 2;
  const auto written = memory.bytes().first(size), found = memory.bytes().last(size);
  for (std::size_t i = 0; i < size; ++i) written[i] = static_cast<std::byte>(i * 31 + 7);
  if (std::string reason = probe(engine, IoKind::write, written); !reason.empty()) return reason;
  if (std::string reason = probe(engine, IoKind::read, found); !reason.empty()) return reason;
  const bool equal = std::memcmp(written.data(), found.data(), size) == 0;
  return equal ? "" : "the drive returned other bytes than were written";
}

/// The engine that `make` makes, if it works; else appends why not to `refused` and returns none.
std::unique_ptr<IoEngine> tried(const std::function<std::unique_ptr<IoEngine>()>& make,
                                std::string& refused) {
  std::string reason;
  try {
    std::unique_ptr<IoEngine> engine = make();
    reason = probe(*engine);
    if (reason.empty()) return engine;
    reason = engine->name() + ": " + reason;
  } catch (const ResourceError& error) {
    reason = error.what();
  }
  refused += (refused.empty() ? "" : "; ") + reason;
  return nullptr;
}

}  // namespace

OpenedDrive open_drive(SwapFile& file, IoChoice choice, int in_flight) {
  FERRY_CHECK(in_flight > 0, "a drive needs a request in flight");
  const auto uring = [&] { return make_uring_engine(file, in_flight); };
  const auto threads = [&] { return make_thread_engine(file, in_flight); };
  const bool wants_direct = choice != IoChoice::threads_buffered;
  OpenedDrive opened;
  if (wants_direct && !file.direct()) opened.refused = "the file system refuses O_DIRECT";
  if (file.direct() && (choice == IoChoice::best || choice == IoChoice::io_uring)) {
    opened.engine = tried(uring, opened.refused);
  }
  if (!opened.engine && choice != IoChoice::io_uring) {
    if (file.direct() && wants_direct) opened.engine = tried(threads, opened.refused);
    if (!opened.engine) {  // some file systems accept O_DIRECT and fail then
      if (file.direct()) file.stop_direct();
      opened.engine = tried(threads, opened.refused);
    }
  }
  if (opened.engine) return opened;
  throw ResourceError(file.folder().string() + ": cannot use a file there: " + opened.refused);
}

}  // namespace ferry

#include "store/open_drive.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "base/check.h"
#include "base/error.h"
#include "store/mapping.h"
#include "store/stripes.h"
#include "store/thread_engine.h"

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
      return what + ": " +
             std::generic_category().message(static_cast<int>(-completion.result));
    }
  }
  return what + ": no answer within " + std::to_string(kProbeLimit.count()) + " s";
}

/// Writes a page of numbers and reads it back. Returns why that failed, or nothing.
std::string probe(IoEngine& engine) {
  const Mapping memory(2 * kDriveAlignment);
  const std::size_t size = memory.bytes().size() / 2;
  const auto written = memory.bytes().first(size), found = memory.bytes().last(size);
  for (std::size_t i = 0; i < size; ++i) written[i] = static_cast<std::byte>(i * 31 + 7);
  if (std::string reason = probe(engine, IoKind::write, written); !reason.empty()) return reason;
  if (std::string reason = probe(engine, IoKind::read, found); !reason.empty()) return reason;
  const bool equal = std::memcmp(written.data(), found.data(), size) == 0;
  return equal ? "" : "the drive returned other bytes than were written";
}

}  // namespace

OpenedDrive open_drive(SwapFile& file, IoChoice choice, int in_flight) {
  FERRY_CHECK(in_flight > 0, "a drive needs a request in flight");
  OpenedDrive opened;
  const auto refuse = [&](const std::string& reason) {
    opened.refused += (opened.refused.empty() ? "" : "; ") + reason;
  };
  if (choice == IoChoice::threads_buffered) {
    if (file.direct()) file.stop_direct();
  } else if (!file.direct()) {
    refuse("the file system refuses O_DIRECT");
  }
  while (true) {
    opened.engine = make_thread_engine(file, in_flight);
    const std::string reason = probe(*opened.engine);
    if (reason.empty()) return opened;
    if (!file.direct()) {
      throw ResourceError(file.folder().string() + ": cannot use a file there: " + reason);
    }
    refuse("direct " + reason);  // overlay file systems accept O_DIRECT and fail then
    opened.engine.reset();
    file.stop_direct();
  }
}

}  // namespace ferry

#include "store/faulty_drive.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "store/mapping.h"
#include "store/stripes.h"

namespace ferry {
namespace {

using Clock = std::chrono::steady_clock;

class FaultyEngine final : public IoEngine {
 public:
  FaultyEngine(Bytes size, const DriveFaults& faults, std::atomic<std::int64_t>& requests)
      : file_(size), faults_(faults), requests_(requests) {}

  void start(const IoRequest& request) override {
    const auto end = static_cast<std::size_t>(request.offset.count) + request.memory.size();
    FERRY_CHECK(end <= file_.bytes().size(), "a request lies within the drive's file");
    const DriveFault fault = next_fault(request.kind);
    if (fault == DriveFault::forget) return;
    const Clock::time_point now = Clock::now();
    due_.push_back({request, fault, fault == DriveFault::delay ? now + faults_.delay : now});
  }

  std::vector<IoCompletion> wait(std::chrono::milliseconds limit) override {
    Clock::time_point end = Clock::now() + limit;
    for (const Due& due : due_) end = std::min(end, due.at);
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, end, [this] { return woken_; });
      woken_ = false;
    }
    std::vector<IoCompletion> done;
    const Clock::time_point now = Clock::now();
    std::vector<Due> all = std::exchange(due_, {});
    std::ranges::reverse(all);
    for (const Due& due : all) {
      if (due.at <= now) {
        done.push_back({.token = due.request.token, .result = perform(due)});
      } else {
        due_.push_back(due);
      }
    }
    return done;
  }

  void wake() override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_all();
  }

  std::string use_memory(std::span<std::byte> /*memory*/) override { return {}; }
  std::string name() const override { return "memory"; }

 private:
  struct Due {
    IoRequest request;
    DriveFault fault = DriveFault::none;
    Clock::time_point at;
  };

  DriveFault next_fault(IoKind kind) {
    if (faults_.only && kind != *faults_.only) return DriveFault::none;
    const std::int64_t behind = requests_++ - faults_.first;
    return behind >= 0 && behind < faults_.count ? faults_.fault : DriveFault::none;
  }

  /// Moves bytes; returns what is told of that.
  std::int64_t perform(const Due& due) {
    if (due.fault == DriveFault::fail) return -faults_.error;
    const bool half = due.fault == DriveFault::shorten || due.fault == DriveFault::tear;
    const std::size_t size = due.request.memory.size() / (half ? 2 : 1);
    const auto memory = due.request.memory.first(size);
    const auto file =
        file_.bytes().subspan(static_cast<std::size_t>(due.request.offset.count), size);
    if (due.request.kind == IoKind::write) {
      std::memcpy(file.data(), memory.data(), size);
    } else {
      std::memcpy(memory.data(), file.data(), size);
    }
    return due.fault == DriveFault::tear ? -faults_.error : static_cast<std::int64_t>(size);
  }

  const Mapping file_;
  const DriveFaults faults_;
  std::atomic<std::int64_t>& requests_;
  std::vector<Due> due_;

  std::mutex mutex_;  // guards the next two
  std::condition_variable changed_;
  bool woken_ = false;
};

}  // namespace

EngineFactory FaultyDrives::engines() {
  return [this](const std::filesystem::path& /*folder*/, Bytes size) {
    return std::make_unique<FaultyEngine>(size, faults_, requests_);
  };
}

}  // namespace ferry

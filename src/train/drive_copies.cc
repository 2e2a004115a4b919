#include "train/drive_copies.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/check.h"

namespace ferry {
namespace {

// A large copy keeps the drives busy alone; of small ones it takes a few.
constexpr std::size_t kMostUnderWay = 4;

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

Bytes end_of(const Binding::Transfer& transfer) {
  return transfer.offset + Bytes{static_cast<std::int64_t>(transfer.pages.size())};
}

/// Whether the two may not run at once: one writes what the other reads or writes.
bool conflict(const Binding::Transfer& a, const Binding::Transfer& b) {
  const bool in_memory = (!a.writes || !b.writes) && overlap(a.pages, b.pages);
  const bool on_drives =
      (a.writes || b.writes) && a.drive == b.drive && a.offset < end_of(b) && b.offset < end_of(a);
  return in_memory || on_drives;
}

/// Bytes on drives have no address. The detector gets one from a range that no process has.
const void* drive_address(Bytes offset) {
  constexpr std::uintptr_t kDrives = std::uintptr_t{1} << 62;
  return reinterpret_cast<const void*>(kDrives + static_cast<std::uintptr_t>(offset.count));
}

}  // namespace

DriveCopies::DriveCopies(const std::string& name, const Binding& binding, Completions& completions,
                         std::function<Micros()> now)
    : binding_(binding), completions_(completions), now_(std::move(now)), actor_(name) {}

bool DriveCopies::can_start(const Task& copy) const {
  if (under_way_.size() >= kMostUnderWay) return false;
  const Binding::Transfer transfer = binding_.transfer(copy);
  return std::ranges::none_of(under_way_, [&](const Copy& other) {
    return !other.completion && conflict(transfer, other.transfer);
  });
}

void DriveCopies::start(TaskRun run, const Task& copy) {
  const Binding::Transfer transfer = binding_.transfer(copy);
  const Bytes size{static_cast<std::int64_t>(transfer.pages.size())};
  actor_.access(transfer.pages.data(), size, !transfer.writes, copy.name);
  actor_.access(drive_address(transfer.offset), size, transfer.writes, copy.name);
  under_way_.push_back({run, transfer, std::nullopt});
  const auto ended = [this, run, begun = now_()](std::exception_ptr error) {
    completions_.add({.run = run, .start = begun, .end = now_(), .error = std::move(error)});
  };
  try {
    if (transfer.writes) {
      transfer.drive->write(transfer.offset, transfer.pages, ended);
    } else {
      transfer.drive->read(transfer.offset, transfer.pages, ended);
    }
  } catch (...) {
    under_way_.pop_back();
    throw;
  }
}

void DriveCopies::note(const HostCompletion& completion) {
  const auto copy = std::ranges::find(under_way_, completion.run, &Copy::run);
  FERRY_CHECK(copy != under_way_.end() && !copy->completion, "a drive ends what it began, once");
  copy->completion = completion;
}

std::optional<HostCompletion> DriveCopies::take() {
  if (under_way_.empty() || !under_way_.front().completion) return std::nullopt;
  HostCompletion oldest = std::move(*under_way_.front().completion);
  under_way_.pop_front();
  return oldest;
}

void DriveCopies::forget() {
  FERRY_CHECK(running() == 0, "a drive still moves bytes of a copy");
  under_way_.clear();
}

int DriveCopies::running() const {
  return static_cast<int>(
      std::ranges::count_if(under_way_, [](const Copy& copy) { return !copy.completion; }));
}

}  // namespace ferry

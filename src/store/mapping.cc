#include "store/mapping.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/error.h"

namespace ferry {
namespace {

// Large enough that splitting the work costs nothing, and whole huge pages.
constexpr std::size_t kTouchPiece = std::size_t{64} << 20;

ResourceError memory_error(const char* what, std::size_t size, int errno_value) {
  const Bytes need{static_cast<std::int64_t>(size)};
  const Bytes have = Bytes{sysconf(_SC_PAGESIZE)} * sysconf(_SC_PHYS_PAGES);
  return system_error("host memory: cannot " + std::string(what) + " " + to_string(need) +
                          "; this machine has " + to_string(have) +
                          " in all, a container may allow less; lower the host budget",
                      errno_value);
}

// Returns 0 or errno. Kernels before 5.14 do not know MADV_POPULATE_WRITE: there a page is backed
// by adding zero to one of its bytes, atomically, so that a concurrent writer loses nothing.
int back_pages(std::span<std::byte> piece) {
  while (madvise(piece.data(), piece.size(), MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno != EINVAL) return errno;
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (std::size_t at = 0; at < piece.size(); at += page) {
      std::atomic_ref(reinterpret_cast<unsigned char&>(piece[at])).fetch_add(0);
    }
    return 0;
  }
  return 0;
}

}  // namespace

Mapping::Mapping(Bytes size) {
  FERRY_CHECK(size.count >= 0, "a mapping has no negative size");
  if (size.count == 0) return;
  const auto length = static_cast<std::size_t>(size.count);
  void* memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw memory_error("map", length, errno);
  bytes_ = {static_cast<std::byte*>(memory), length};
  // Advice only: without transparent huge pages the mapping works, a little slower.
  static_cast<void>(madvise(memory, length, MADV_HUGEPAGE));
}

Mapping::~Mapping() {
  if (bytes_.empty()) return;
  FERRY_CHECK(munmap(bytes_.data(), bytes_.size()) == 0, "the mapping is ours to unmap");
}

// By the kernel's own call: libnuma would be a library for one line.
std::string Mapping::lie_on(std::span<const int> nodes) {
  constexpr unsigned kNodes = 1024, kWord = CHAR_BIT * sizeof(unsigned long);  // as kernels have
  FERRY_CHECK(!nodes.empty(), "memory lies on some node");
  if (bytes_.empty()) return "";
  std::array<unsigned long, kNodes / kWord> mask{};
  for (const int node : nodes) {
    FERRY_CHECK(node >= 0 && node < static_cast<int>(kNodes), "a node is from 0 to 1023");
    mask[static_cast<unsigned>(node) / kWord] |= 1UL << (static_cast<unsigned>(node) % kWord);
  }
  const int mode = nodes.size() == 1 ? MPOL_PREFERRED : MPOL_INTERLEAVE;
  // The kernel reads one bit less than it is told.
  const long result =
      syscall(SYS_mbind, bytes_.data(), bytes_.size(), mode, mask.data(), kNodes + 1UL, 0U);
  return result == 0 ? "" : std::generic_category().message(errno);
}

void Mapping::touch(int threads, PhaseListener& listener) {
  FERRY_CHECK(threads > 0, "touching needs a thread");
  if (bytes_.empty()) return;
  const std::size_t pieces = (bytes_.size() + kTouchPiece - 1) / kTouchPiece;
  std::atomic<std::size_t> next = 0, backed = 0;
  std::atomic<int> failure = 0;
  Progress progress{"taking memory", 0, static_cast<std::int64_t>(bytes_.size())};
  const auto report = [&] {
    progress.done = static_cast<std::int64_t>(backed.load());
    listener.progress(progress);
  };
  const auto work = [&](bool reports) {
    for (std::size_t piece = next++; piece < pieces && failure == 0; piece = next++) {
      const std::size_t begin = piece * kTouchPiece;
      const std::size_t length = std::min(kTouchPiece, bytes_.size() - begin);
      if (const int error = back_pages(bytes_.subspan(begin, length)); error != 0) failure = error;
      backed += length;
      if (reports && backed < bytes_.size()) report();
    }
  };
  report();
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(work, /*reports=*/false);
    work(/*reports=*/true);
  }
  if (failure != 0) throw memory_error("back", bytes_.size(), failure);
  report();
}

}  // namespace ferry

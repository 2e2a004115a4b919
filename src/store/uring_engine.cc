#include "store/uring_engine.h"

#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace ferry {
namespace {

constexpr std::uint64_t kWakeToken = ~std::uint64_t{0};
constexpr Bytes kLargestBuffer = 1_GiB;  // what the kernel registers as one
constexpr unsigned kBuffers = 1024;

/// For results of liburing, which are -errno. Returns `result`.
int checked(int result, const char* what) {
  if (result < 0) throw system_error(what, -result);
  return result;
}

/// A ring that only its maker's thread enters.
class Ring {
 public:
  explicit Ring(unsigned entries) {
    // Completions are worked off when this thread waits for them; kernels before 6.1 refuse that.
    const unsigned wanted = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    if (io_uring_queue_init(entries, &ring_, wanted) != 0) {
      checked(io_uring_queue_init(entries, &ring_, 0), "io_uring_setup");
    }
    // Without these waiting would need requests of its own, and completions could be lost.
    if ((ring_.features & IORING_FEAT_EXT_ARG) == 0 || (ring_.features & IORING_FEAT_NODROP) == 0) {
      io_uring_queue_exit(&ring_);
      throw ResourceError("io_uring: the kernel is older than 5.11");
    }
  }
  ~Ring() { io_uring_queue_exit(&ring_); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  io_uring* get() { return &ring_; }

 private:
  io_uring ring_ = {};
};

int new_event() {
  const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) throw system_error("eventfd", errno);
  return event;
}

std::string memory_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return "; RLIMIT_MEMLOCK is " + to_string(Bytes{static_cast<std::int64_t>(limit.rlim_cur)});
}

class UringEngine final : public IoEngine {
 public:
  UringEngine(const SwapFile& file, int in_flight)
      : file_(file.descriptor().duplicate()),
        event_(new_event()),
        ring_(static_cast<unsigned>(in_flight) + 1) {
    const int descriptor = file_.number();
    fixed_file_ = io_uring_register_files(ring_.get(), &descriptor, 1) == 0;
    sparse_error_ = -io_uring_register_buffers_sparse(ring_.get(), kBuffers);
  }

  void start(const IoRequest& request) override {
    const bool writes = request.kind == IoKind::write;
    const int buffer = buffer_of(request.memory);
    const int operation = buffer < 0 ? (writes ? IORING_OP_WRITE : IORING_OP_READ)
                                     : (writes ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED);
    io_uring_sqe* const entry = next_entry();
    io_uring_prep_rw(operation, entry, fixed_file_ ? 0 : file_.number(), request.memory.data(),
                     static_cast<unsigned>(request.memory.size()),
                     static_cast<std::uint64_t>(request.offset.count));
    if (buffer >= 0) entry->buf_index = static_cast<std::uint16_t>(buffer);
    if (fixed_file_) entry->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data64(entry, request.token);
  }

  std::vector<IoCompletion> wait(std::chrono::milliseconds limit) override {
    watch_event();
    io_uring_cqe* first = nullptr;
    __kernel_timespec time = {.tv_sec = limit.count() / 1000,
                              .tv_nsec = limit.count() % 1000 * 1'000'000};
    const int result = io_uring_submit_and_wait_timeout(ring_.get(), &first, 1, &time, nullptr);
    // EAGAIN and EBUSY: the kernel is short of memory or of room for completions; later it is not.
    constexpr std::array kPassing = {ETIME, EINTR, EAGAIN, EBUSY};
    if (result < 0 && std::ranges::find(kPassing, -result) == kPassing.end()) {
      throw system_error("io_uring_enter", -result);
    }
    std::vector<IoCompletion> done;
    unsigned head = 0, count = 0;
    io_uring_cqe* entry = nullptr;
    io_uring_for_each_cqe(ring_.get(), head, entry) {
      ++count;
      if (entry->user_data == kWakeToken) {
        take_event(entry->res);
      } else {
        done.push_back({.token = entry->user_data, .result = entry->res});
      }
    }
    io_uring_cq_advance(ring_.get(), count);
    return done;
  }

  void wake() override {
    const std::uint64_t one = 1;
    const ssize_t written = write(event_.number(), &one, sizeof one);
    FERRY_CHECK(written == sizeof one || errno == EAGAIN, "an event can be set, or is set already");
  }

  std::string use_memory(std::span<std::byte> memory) override {
    const auto largest = static_cast<std::size_t>(kLargestBuffer.count);
    for (; !memory.empty(); memory = memory.subspan(std::min(largest, memory.size()))) {
      const auto buffer = memory.first(std::min(largest, memory.size()));
      if (const int error = register_buffer(buffer); error != 0) {
        return system_error("io_uring_register", error).what() + memory_limit();
      }
    }
    return {};
  }

  std::string name() const override { return "io_uring, direct"; }

 private:
  io_uring_sqe* next_entry() {
    io_uring_sqe* const entry = io_uring_get_sqe(ring_.get());
    FERRY_CHECK(entry != nullptr, "a ring has an entry for every request in flight");
    return entry;
  }

  /// Lets wake() complete as a request does.
  void watch_event() {
    if (watches_event_) return;
    io_uring_sqe* const entry = next_entry();
    io_uring_prep_poll_add(entry, event_.number(), POLLIN);
    io_uring_sqe_set_data64(entry, kWakeToken);
    watches_event_ = true;
  }

  void take_event(int result) {
    checked(result, "io_uring: waiting for an event");
    watches_event_ = false;
    std::uint64_t count = 0;
    if (::read(event_.number(), &count, sizeof count) < 0 && errno != EAGAIN) {
      throw system_error("read of an event", errno);
    }
  }

  /// Returns 0 or errno.
  int register_buffer(std::span<std::byte> memory) {
    if (sparse_error_ != 0) return sparse_error_;
    if (buffers_.size() == kBuffers) return ENOSPC;
    const iovec buffer = {.iov_base = memory.data(), .iov_len = memory.size()};
    const auto index = static_cast<unsigned>(buffers_.size());
    const int result =
        io_uring_register_buffers_update_tag(ring_.get(), index, &buffer, nullptr, 1);
    if (result < 0) return -result;
    buffers_.push_back(memory);
    return 0;
  }

  /// The registered buffer in which all of `memory` lies, or -1.
  int buffer_of(std::span<const std::byte> memory) const {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const std::span<const std::byte> buffer = buffers_[i];
      if (memory.data() >= buffer.data() &&
          memory.data() + memory.size() <= buffer.data() + buffer.size()) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  const Descriptor file_;
  const Descriptor event_;
  Ring ring_;  // after what it uses
  bool fixed_file_ = false;
  int sparse_error_ = 0;  // why no memory can be registered
  bool watches_event_ = false;
  std::vector<std::span<const std::byte>> buffers_;  // by the kernel's index
};

}  // namespace

std::unique_ptr<IoEngine> make_uring_engine(const SwapFile& file, int in_flight) {
  FERRY_CHECK(file.direct(), "io_uring without direct I/O would be threads in the kernel");
  return std::make_unique<UringEngine>(file, in_flight);
}

}  // namespace ferry

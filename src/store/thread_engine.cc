#include "store/thread_engine.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"

namespace ferry {
namespace {

/// How long threads may take to end. One that the drive does not answer is left to itself.
constexpr std::chrono::milliseconds kEnding{500};

/// What the engine and its threads share. A thread that is stuck in the kernel keeps it alive.
struct Shared {
  Shared(Descriptor descriptor, bool is_direct) : file(std::move(descriptor)), direct(is_direct) {}

  const Descriptor file;
  const bool direct;
  std::mutex mutex;  // guards everything below
  std::condition_variable work;
  std::condition_variable news;
  std::deque<IoRequest> waiting;
  std::vector<IoCompletion> done;
  int running = 0;  // threads
  bool woken = false;
  bool ending = false;
};

/// Sends what was written through the page cache to the drive, and drops it there.
/// Returns 0 or errno.
int send(int file, off_t offset, std::size_t size) {
  const auto length = static_cast<off_t>(size);
  constexpr unsigned kWait =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (sync_file_range(file, offset, length, kWait) != 0) {
    const bool unknown = errno == EINVAL || errno == ENOSYS || errno == ESPIPE;
    if (!unknown || fdatasync(file) != 0) return errno;
  }
  return 0;
}

/// Bytes moved or -errno.
std::int64_t perform(const Shared& shared, const IoRequest& request) {
  const int file = shared.file.number();
  const off_t offset = request.offset.count;
  const bool writes = request.kind == IoKind::write;
  const ssize_t moved = writes ? pwrite(file, request.memory.data(), request.memory.size(), offset)
                               : pread(file, request.memory.data(), request.memory.size(), offset);
  if (moved < 0) return -errno;
  if (shared.direct || moved == 0) return moved;
  if (writes) {
    if (const int error = send(file, offset, static_cast<std::size_t>(moved)); error != 0) {
      return -error;
    }
  }
  posix_fadvise(file, offset, moved, POSIX_FADV_DONTNEED);  // advice only
  return moved;
}

void serve(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->work.wait(lock, [&] { return shared->ending || !shared->waiting.empty(); });
    if (shared->ending) break;
    const IoRequest request = shared->waiting.front();
    shared->waiting.pop_front();
    lock.unlock();
    const std::int64_t result = perform(*shared, request);
    lock.lock();
    shared->done.push_back({.token = request.token, .result = result});
    shared->news.notify_all();
  }
  --shared->running;
  shared->news.notify_all();
}

class ThreadEngine final : public IoEngine {
 public:
  ThreadEngine(const SwapFile& file, int threads)
      : shared_(std::make_shared<Shared>(file.descriptor().duplicate(), file.direct())) {
    try {
      for (int i = 0; i < threads; ++i) {
        const std::lock_guard lock(shared_->mutex);
        threads_.emplace_back(serve, shared_);
        ++shared_->running;
      }
    } catch (const std::system_error& error) {
      end();
      throw ResourceError("cannot start " + std::to_string(threads) + " threads: " + error.what());
    }
  }
  ~ThreadEngine() override { end(); }
  ThreadEngine(const ThreadEngine&) = delete;
  ThreadEngine& operator=(const ThreadEngine&) = delete;

  void start(const IoRequest& request) override {
    const std::lock_guard lock(shared_->mutex);
    shared_->waiting.push_back(request);
    shared_->work.notify_one();
  }

  std::vector<IoCompletion> wait(std::chrono::milliseconds limit) override {
    std::unique_lock lock(shared_->mutex);
    shared_->news.wait_for(lock, limit, [&] { return shared_->woken || !shared_->done.empty(); });
    shared_->woken = false;
    return std::exchange(shared_->done, {});
  }

  void wake() override {
    const std::lock_guard lock(shared_->mutex);
    shared_->woken = true;
    shared_->news.notify_all();
  }

  std::string use_memory(std::span<std::byte> /*memory*/) override { return {}; }

  std::string name() const override {
    return shared_->direct ? "threads, direct" : "threads, through the page cache";
  }

 private:
  void end() {
    std::unique_lock lock(shared_->mutex);
    shared_->ending = true;
    shared_->work.notify_all();
    const bool all = shared_->news.wait_for(lock, kEnding, [&] { return shared_->running == 0; });
    lock.unlock();
    for (std::thread& thread : threads_) all ? thread.join() : thread.detach();
  }

  const std::shared_ptr<Shared> shared_;  // with the threads, see Shared
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<IoEngine> make_thread_engine(const SwapFile& file, int threads) {
  return std::make_unique<ThreadEngine>(file, threads);
}

}  // namespace ferry

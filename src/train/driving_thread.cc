#include "train/driving_thread.h"

#include <unistd.h>

#include <exception>
#include <thread>
#include <tuple>

#include "base/kernel_team.h"

namespace ferry {
namespace {

constexpr int kGivingWay = 10;  // a tenth of a core beside a busy thread, by Linux's weights

}  // namespace

// On Linux a thread has a nice value of its own. Where it cannot be set, nothing but speed is lost.
void give_way() { std::ignore = nice(kGivingWay); }

void on_driving_thread(bool gives_way, const std::function<void()>& work) {
  release_kernel_team();  // the calling thread waits
  std::exception_ptr failure;
  std::thread thread([&] {
    if (gives_way) give_way();
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace ferry

// The thread that drives a plan, and how it and those that launch tasks give way.
//
// Simulated devices compute on the host's own cores, so there these threads give way to their
// kernels: they are ahead of them by many tasks, while a kernel whose threads wait for one that was
// interrupted stands still. Measured on 2 cores, 36 M parameters in bf16: 3.2 s per step at equal
// priority, 2.7 s giving way. They must not starve either: behind two busy streams they would not
// feed the one that runs dry first. Two pipelines on 2 devices, 2.2 M parameters: 0.64 and 0.69 s
// per step at nice 0, 0.52 and 0.52 s at 10, 1.01 and 0.50 s at 19.
#pragma once

#include <functional>

namespace ferry {

/// From now on the calling thread takes little but what other threads of this process leave.
void give_way();

/// Runs `work` on a thread of its own, which may give way, and returns when it is done; what it
/// throws is thrown here, a ResourceError where the machine refuses the thread. Meanwhile the
/// calling thread has no team of kernels' threads (base/kernel_team.h): beside it those of devices
/// would sleep.
void on_driving_thread(bool gives_way, const std::function<void()>& work);

}  // namespace ferry

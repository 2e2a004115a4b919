// `sim:k`: simulated accelerators as a torch device type of their own (PrivateUse1).
//
// Operators are real and asynchronous: CPU kernels run in order on a thread per stream, bit-equal
// to the plain CPU. A device has a byte cap, its copies may be throttled by shared links, and
// missing waits are found by a hazard detector. Between simdev_open() and simdev_close() torch
// code uses it like any accelerator: at::empty(..., "sim:0"), c10::Stream, c10::Event.
//
// What a task on a stream throws becomes a ResourceError that names device, stream, operator and
// task; it is thrown once, by the first host wait ordered after the task (on the stream, the
// device, or an event, also a query of one).
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fair_share.h"
#include "base/units.h"
#include "simdev/hazards.h"

namespace c10 {
class Stream;
}

namespace ferry {

/// What a device keeps of freed memory for reuse beyond its cap, at most.
inline constexpr Bytes kSimReuse = 32_MiB;

/// One simulated device.
struct SimDeviceSpec {
  Bytes memory;     // the cap: an allocation beyond it throws c10::OutOfMemoryError
  int threads = 1;  // intra-op threads of every stream's kernels; results depend on it
  // Pools that copies from (up) and to (down) the host draw on, in bytes/s at full speed. The
  // first entry is the device's own link: its rate is the speed of a copy that is alone. Empty:
  // copies are immediate.
  std::vector<Draw> up, down;
  double latency_micros = 0;  // of every throttled copy
  // As up and down, of copies straight to and from other devices. Where one of two has none, a copy
  // between them passes both links to the host.
  std::vector<Draw> peer_out = {}, peer_in = {};
  std::string pci_address = {};  // where it says that it hangs; empty: nowhere
};

struct SimOptions {
  std::vector<SimDeviceSpec> devices;
  std::vector<double> pool_capacities;  // bytes/s of links and root complexes
  bool poison = false;   // new and freed memory is filled with 0xFF: NaN, or -1 as an integer
  bool hazards = false;  // switches the hazard detector on
  bool strict = false;   // an operator that would drain its stream throws c10::Error instead
  // False: for the detector, a query that finds an event done orders nothing; only waits do. Then a
  // missing wait is found whatever the timing, also where a poll happened to come late enough.
  bool queries_order = true;
  // Host memory that may be page-locked, in all. Then the host waits for copies from and to memory
  // that is not, as CUDA makes it. Nothing: all counts as locked.
  std::optional<Bytes> lockable = {};
  // What may wait on a stream; whoever enqueues more waits, as with CUDA, which stops its caller
  // near 1024. 0: any number.
  std::size_t launch_queue = 0;
};

/// What happened on a device since it was opened or simdev_reset_stats().
struct SimStats {
  Bytes live;                          // allocated now
  Bytes peak;                          // most allocated at once, since simdev_reset_peak()
  Bytes unused;                        // freed, and kept for reuse
  long async_ops = 0;                  // operators that were enqueued
  std::map<std::string, long> drains;  // operators that waited for their stream, by name
  long copies = 0;                     // between host and device, or between devices
  Bytes bytes_copied;
  long host_syncs = 0;    // waits for a stream, event or device, blocking copies, and drains
  long launch_waits = 0;  // waits for a full stream, since it was opened
};

/// Opens the devices sim:0 ... sim:n-1; the first call registers the back end with torch for the
/// life of the process (from then on torch names PrivateUse1 as "the" accelerator). Calls
/// simdev_close() first when devices are open. No other thread may use sim devices meanwhile.
/// Backward passes need autograd's multithreading switched off in the calling thread.
/// Throws ResourceError when tensors of an earlier opening are still alive and devices are open.
void simdev_open(const SimOptions& options);

/// Waits for all streams and joins their threads; does nothing when nothing is open. Failures that
/// nobody waited for are dropped. Tensors that outlive this may only be destroyed.
void simdev_close();

SimStats simdev_stats(int device);
void simdev_reset_peak(int device);
void simdev_reset_stats();

/// As the device's specification has it.
std::string simdev_pci_address(int device);

/// What the detector has found since simdev_open(). Empty when it is off or no device is
/// open.
std::vector<Hazard> simdev_hazards();

/// Names the task that this thread enqueues from now on, e.g. "F.3.0", in hazards and errors.
void simdev_set_label(std::string label);

/// Names a stream in hazards and errors; it then reads "sim:0/NAME".
void simdev_name_stream(const c10::Stream& stream, const std::string& name);

/// Names bytes in hazards, e.g. "W.3@gpu0"; takes the place of earlier names of the same bytes.
/// Does nothing when the detector is off or no device is open, as simdev_host_access().
void simdev_name_range(const void* begin, Bytes size, std::string name);

/// Tells the detector that host code touches a buffer which streams copy to or from.
void simdev_host_access(const void* begin, Bytes size, bool write, const std::string& who);

/// An actor of the detector that is neither host code nor a stream, and works as a stream does:
/// after what the host has seen when it is told to begin, and unseen by others until they join its
/// clock. A drive's transfers, for instance. Does nothing when the detector is off or no device is
/// open; lives as long as the devices are. Threads: from any.
class SimActor {
 public:
  explicit SimActor(const std::string& name);

  /// It begins to touch a buffer.
  void access(const void* begin, Bytes size, bool write, const std::string& who) const;

  /// What it has done and seen so far.
  HazardClock clock() const;

  /// It has waited for what `seen` tells of.
  void join(const HazardClock& seen) const;

 private:
  int actor_ = -1;  // -1: no detector
};

/// Makes the calling thread an actor of its own: what it enqueues is ordered after what it has
/// itself waited for or joined, and not after what other host code has meanwhile.
void simdev_host_thread(const std::string& name);

/// What host code has done and seen so far; where the calling thread is an actor of its own, what
/// that has.
HazardClock simdev_host_clock();

/// Host code, or the calling thread alone if it is an actor of its own, has waited for what `seen`
/// tells of.
void simdev_host_join(const HazardClock& seen);

/// What is enqueued on the stream from now on is enqueued by code that has waited for it.
void simdev_stream_join(const c10::Stream& stream, const HazardClock& seen);

/// Page-locks host memory, or gives it back. Returns an empty text, or what went wrong. Do nothing
/// unless SimOptions::lockable is given.
std::string simdev_lock_pages(const void* begin, Bytes size);
std::string simdev_unlock_pages(const void* begin);

/// Makes the n-th copy from now (1: the next one) fail when it ends; its bytes do not arrive.
void simdev_fail_copy(long n);

/// Makes the n-th question from now (1: the next one) for the time between two events fail, as of a
/// CUDA device that is in trouble.
void simdev_fail_time(long n);

/// Copies from one device to another arrive with a wrong byte from now on, as peer-to-peer does on
/// some boards.
void simdev_spoil_copies(int from, int to);

/// Takes the failure that the next wait for this stream would throw; null when there is none.
std::exception_ptr simdev_take_error(const c10::Stream& stream);

}  // namespace ferry

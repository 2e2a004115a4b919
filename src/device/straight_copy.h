// Copies from one device to another, without a stop on the host.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <optional>

#include "device/device.h"

namespace ferry {

/// One way from a device to another. torch orders a copy between devices with the current streams
/// of both; so that the other device's own work need not wait for it, nor it for that, it meets a
/// stream there that nobody else uses. Ends may be one device of torch's (several logical ones on
/// one GPU): then a copy is as any other on its stream. Movable. Threads: one at a time.
class StraightCopies {
 public:
  /// `purpose` names the streams (Device::stream).
  StraightCopies(Device& from, Device& to, const std::string& purpose);

  /// Enqueues the copy on the sender's current stream. Events recorded there afterwards are done
  /// when the bytes are there. Other threads may compute on the receiver meanwhile, with other
  /// bytes of the same slab. Requires: the tensors are of the two devices, equal in size and type.
  void copy(const at::Tensor& from, const at::Tensor& to) const;

 private:
  std::optional<c10::Stream> arrival_;  // none: one device
};

/// Whether two patterns of the tensors' size arrive as they were sent: on some boards peer-to-peer
/// brings wrong bytes. Takes what is in both tensors. Requires: byte tensors of the two devices.
/// Throws ResourceError or c10::Error when a device fails.
bool arrive_whole(Device& from, const at::Tensor& sent, Device& to, const at::Tensor& received);

}  // namespace ferry

// The server of Ratel's evaluation with its two GPUs, as constants for ratel_calibration.h and for
// the event program (papers/ratel/fuyou_program.h).
//
// One joint fit: 8 % rms over the single-GPU observations with an RTX 4090; the RTX 3090 re-fits
// THP and e only (5 % rms). The drives' write rate is above their specification and THP above the
// measured peak; e takes up the difference.
#pragma once

#include "papers/ratel/ratel_calibration.h"

namespace ferry {

RatelConstants ratel_server_4090(int drives);
RatelConstants ratel_server_3090(int drives);

}  // namespace ferry

#include "papers/ratel/ratel_servers.h"

namespace ferry {
namespace {

RatelConstants server(int drives) {
  RatelConstants constants;
  constants.rates.link = 18.7e9;
  constants.rates.read = 6.93e9 * drives;
  constants.rates.write = 4.16e9 * drives;
  constants.host_work = 0.98e-9;
  constants.stage_host_work = 0.69e-9;
  constants.launch_stall = 0.6;
  constants.overlap_stretch = 1.4;
  return constants;
}

}  // namespace

RatelConstants ratel_server_4090(int drives) {
  RatelConstants constants = server(drives);
  constants.flops = 175e12;
  constants.elementwise = 226;
  return constants;
}

RatelConstants ratel_server_3090(int drives) {
  RatelConstants constants = server(drives);
  constants.flops = 66e12;
  constants.elementwise = 400;
  return constants;
}

}  // namespace ferry

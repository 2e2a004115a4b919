#include "planner/mip.h"
#include <gtest/gtest.h>

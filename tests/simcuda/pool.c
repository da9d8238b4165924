// SPDX-License-Identifier: MIT
#include "sim.h"
void sim_pool_free_done(struct sim_allocation *allocation){ (void)allocation; }
void sim_pools_synchronized(int device){ (void)device; }

// Mobius's schedule on a machine's own links, where transfers contend: what the pure program leaves
// out, as events. First loads, gradient downloads and host updates are charged; every boundary goes
// down one link and up another. (Mobius, ASPLOS 2023, section 3.)
#pragma once

#include "papers/mobius/mobius_program.h"

namespace ferry {

/// A prefetch takes what fits beside the running stage (5) and whatever its link gives it; the rest
/// follows when the stage has ended. A stage is updated on the host as its gradient lands, when the
/// profile or the machine has an update rate; the next step's uploads wait for the flush. Throws
/// UserError when a link has no rate.
Plan write_mobius_on_links(const PlanQuestion& question, const MobiusProgram& program);

}  // namespace ferry

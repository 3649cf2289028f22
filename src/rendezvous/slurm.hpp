// Slurm's notations: which process is in a step, node lists and tasks per node.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/launch.hpp"

namespace kolo {

/// Whether srun started this process as a task of a step. A batch script and an interactive shell of an
/// allocation carry some of the same variables but are no ranks.
bool in_slurm_step(const Lookup& lookup);

/// The first host of "node[01-04,7],other" or "a,b"; nullopt when it cannot be read.
std::optional<std::string> first_slurm_host(std::string_view list);

/// The count for node number `node` in "2(x3),1"; nullopt when it cannot be read.
std::optional<int> slurm_tasks_on_node(std::string_view list, int node);

}  // namespace kolo

// Slurm's notations: whether a process is in a step, node lists, and tasks per node.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/launch.hpp"

namespace kolo::rendezvous {

/// Whether srun started this process as a task of a step. A batch script and an interactive shell have some
/// of the same variables but are not ranks.
bool in_slurm_step(const Lookup& lookup);

/// The first host of "node[01-04,7],other" or "a,b"; nullopt if the list is malformed.
std::optional<std::string> first_slurm_host(std::string_view list);

/// The number of tasks on node number `node` in "2(x3),1"; nullopt if the list is malformed.
std::optional<int> slurm_tasks_on_node(std::string_view list, int node);

}  // namespace kolo::rendezvous

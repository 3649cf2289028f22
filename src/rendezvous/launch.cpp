#include "rendezvous/launch.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "base/limits.hpp"
#include "rendezvous/slurm.hpp"

namespace kolo {
namespace {

/// Reads integers and keeps the first error, so that each launcher below reads like a table.
class Reader {
 public:
  explicit Reader(const rendezvous::Lookup& lookup) : lookup_(lookup) {}

  bool has(const char* name) const { return lookup_(name).has_value(); }

  /// The variable's value; an error if it is not set.
  int required(const char* name, const char* because) {
    const auto text = lookup_(name);
    if (!text) {
      fail(fmt::format("{} is not set although {} is", name, because));
      return 0;
    }
    return parse(name, *text);
  }

  int optional(const char* name, int fallback) {
    const auto text = lookup_(name);
    return text ? parse(name, *text) : fallback;
  }

  /// Checks 0 <= rank < size.
  void check(const char* rank_name, int rank, const char* size_name, int size) {
    if (!status_.ok()) return;
    if (size < 1) fail(fmt::format("{}={} must be at least 1", size_name, size));
    if (size > kMostRanks) fail(fmt::format("{}={} must be at most {}", size_name, size, kMostRanks));
    if (rank < 0 || rank >= size) {
      fail(fmt::format("{}={} must be from 0 to {} ({}={})", rank_name, rank, size - 1, size_name, size));
    }
  }

  void fail(std::string message) {
    if (status_.ok()) status_ = Status(Code::invalid_argument, std::move(message));
  }

  Result<Launch> finish(Launch launch) const {
    if (!status_.ok()) return status_;
    return launch;
  }

 private:
  int parse(const char* name, const std::string& text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      fail(fmt::format("{}=\"{}\" is not a number", name, text));
    }
    return value;
  }

  const rendezvous::Lookup& lookup_;
  Status status_;
};

/// torchrun, kolo run, or variables set by hand. The LOCAL_ variables may both be missing: users who set RANK
/// by hand often run one rank on each host.
Result<Launch> read_torchrun(Reader env) {
  Launch launch;
  launch.launcher = "torchrun";
  launch.rank = env.required("RANK", "WORLD_SIZE");
  launch.size = env.required("WORLD_SIZE", "RANK");
  env.check("RANK", launch.rank, "WORLD_SIZE", launch.size);
  if (env.has("LOCAL_RANK") || env.has("LOCAL_WORLD_SIZE")) {
    launch.local_rank = env.required("LOCAL_RANK", "LOCAL_WORLD_SIZE");
    launch.local_size = env.required("LOCAL_WORLD_SIZE", "LOCAL_RANK");
    env.check("LOCAL_RANK", launch.local_rank, "LOCAL_WORLD_SIZE", launch.local_size);
  }
  return env.finish(launch);
}

Result<Launch> read_open_mpi(Reader env) {
  Launch launch;
  launch.launcher = "Open MPI";
  launch.rank = env.required("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  launch.size = env.required("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK");
  launch.local_rank = env.required("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_RANK");
  launch.local_size = env.required("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_RANK");
  env.check("OMPI_COMM_WORLD_RANK", launch.rank, "OMPI_COMM_WORLD_SIZE", launch.size);
  env.check("OMPI_COMM_WORLD_LOCAL_RANK", launch.local_rank, "OMPI_COMM_WORLD_LOCAL_SIZE", launch.local_size);
  return env.finish(launch);
}

/// In a Slurm step: the number of tasks on this node, from "2(x3),1" and the node's number.
int slurm_local_size(Reader& env, const rendezvous::Lookup& lookup, int size) {
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    const auto text = lookup(name);
    if (!text) continue;
    const auto tasks = rendezvous::slurm_tasks_on_node(*text, env.optional("SLURM_NODEID", 0));
    if (tasks) return *tasks;
    env.fail(fmt::format("{}=\"{}\" makes no sense", name, *text));
    return 1;
  }
  if (env.optional("SLURM_NNODES", 1) == 1) return size;
  env.fail("SLURM_TASKS_PER_NODE is not set although SLURM_PROCID is");
  return 1;
}

/// MPICH's Hydra, Intel MPI, and Slurm with PMI.
Result<Launch> read_pmi(Reader env, const rendezvous::Lookup& lookup) {
  Launch launch;
  launch.launcher = "MPICH";
  launch.rank = env.required("PMI_RANK", "PMI_SIZE");
  launch.size = env.required("PMI_SIZE", "PMI_RANK");
  env.check("PMI_RANK", launch.rank, "PMI_SIZE", launch.size);
  if (rendezvous::in_slurm_step(lookup) && !env.has("MPI_LOCALRANKID")) {
    launch.local_rank = env.required("SLURM_LOCALID", "SLURM_STEP_ID");
    launch.local_size = slurm_local_size(env, lookup, launch.size);
    env.check("SLURM_LOCALID", launch.local_rank, "SLURM_TASKS_PER_NODE", launch.local_size);
  } else if (launch.size > 1) {
    launch.local_rank = env.required("MPI_LOCALRANKID", "PMI_RANK");
    launch.local_size = env.required("MPI_LOCALNRANKS", "PMI_RANK");
    env.check("MPI_LOCALRANKID", launch.local_rank, "MPI_LOCALNRANKS", launch.local_size);
  }
  return env.finish(launch);
}

Result<Launch> read_slurm(Reader env, const rendezvous::Lookup& lookup) {
  Launch launch;
  launch.launcher = "Slurm";
  const char* size_name = env.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  launch.rank = env.required("SLURM_PROCID", "SLURM_STEP_ID");
  launch.size = env.required(size_name, "SLURM_PROCID");
  launch.local_rank = env.required("SLURM_LOCALID", "SLURM_PROCID");
  env.check("SLURM_PROCID", launch.rank, size_name, launch.size);
  launch.local_size = slurm_local_size(env, lookup, launch.size);
  env.check("SLURM_LOCALID", launch.local_rank, "SLURM_TASKS_PER_NODE", launch.local_size);
  return env.finish(launch);
}

}  // namespace

std::optional<std::string> rendezvous::environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

Result<Launch> rendezvous::read_launch(const rendezvous::Lookup& lookup) {
  const Reader env(lookup);
  if (env.has("RANK") || env.has("WORLD_SIZE")) return read_torchrun(env);
  if (env.has("OMPI_COMM_WORLD_RANK") || env.has("OMPI_COMM_WORLD_SIZE")) return read_open_mpi(env);
  if (env.has("PMI_RANK") || env.has("PMI_SIZE")) return read_pmi(env, lookup);
  if (rendezvous::in_slurm_step(lookup)) return read_slurm(env, lookup);
  Launch alone;
  alone.launcher = "none";
  return alone;
}

Launch launch_from_environment() {
  return rendezvous::read_launch(rendezvous::environment).value_or_throw();
}

}  // namespace kolo

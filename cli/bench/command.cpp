// kolo bench: the command line, and the start of ranks and peers.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "bench/grid.hpp"
#include "bench/machine.hpp"
#include "bench/neighbours.hpp"
#include "bench/processes.hpp"
#include "bench/runner.hpp"
#include "bench/settings.hpp"
#include "commands.hpp"
#include "kolo/kolo.hpp"
#include "kolo/trouble.hpp"
#include "launch/launcher.hpp"
#include "options.hpp"
#include "selection/topology.hpp"
#include "text/columns.hpp"
#include "text/refuse.hpp"
#include "transport/transport.hpp"

namespace kolo::cli {
namespace {

using bench::Peer;
using bench::RawSettings;
using bench::Settings;
using Peers = std::vector<std::unique_ptr<Peer>>;

constexpr int kWrong = 1;
constexpr int kBenchUsage = 2;

constexpr const char* kBenchExamples = R"(Examples:
  kolo bench all_reduce                              a rank for each core
  kolo bench all_reduce --ranks 4 --sizes 8,1K,1M,64M
  kolo bench all_reduce --sizes 8:64M:4 --transport tcp   8, 32, ... up to 64M
  kolo bench all_reduce --against gloo,openmpi,mpich      in the same run
  kolo bench all_reduce --against limit      what the machine's memory allows
  kolo bench all_reduce --tensors 200 --sizes 4K     200 calls at once
  kolo bench all_reduce --calls-a-barrier 10 --sizes 8,4K  calls in a row
  kolo bench all_reduce --neighbours 1 --compute 2   steps beside a busy process
  kolo bench all_reduce --neighbours 1 --blip 200,3000  200 us of each 3 ms
  kolo bench all_reduce --wire bfloat16      half the bytes, and the error
  kolo bench all_reduce --algorithm all      every algorithm, and kolo's choice
  kolo bench all_reduce --device cuda        GPUs' memory, beside its limits
  kolo bench all_gather --dtype bfloat16 --json out.jsonl
  mpirun -n 8 kolo bench all_reduce          ranks that a launcher starts

Columns:
  time     the slowest rank's, median over the iterations; with several calls a
           barrier their mean
  mean     over the iterations, which is what a program feels; with --wide half
           of its 95 % interval, by resampling
  algbw    size / time
  busbw    algbw times what the collective must move, 2(N-1)/N for all_reduce,
           as nccl-tests defines both
  /kolo    with --against and --device: another's time over kolo's
  copies   with --device: as many bytes to the host and back, without a call
  host     with --device: the same call on the host's memory
  wrong    elements: inputs are new in every iteration, and every element of
           every result is compared

Exit code: 1 when an element is wrong ('kolo help').)";

int report(int rank, const std::exception& error, int code) {
  fmt::print(stderr, "kolo bench: rank {}: {}\n", rank, with_code(error.what()));
  return code;
}

Options communicator_options(const Settings& settings) {
  Options options;
  options.transports = settings.transport;
  // The other ranks of kolo wait while a peer is measured.
  if (!settings.against.empty()) options.timeout = std::chrono::hours(1);
  return options;
}

Peers start_peers(const Settings& settings) {
  Peers peers;
  const transport::TransportFactory* const chosen = transport::find_transport(settings.transport);
  const transport::Reach reach = chosen && chosen->reach == transport::Reach::network
                                     ? transport::Reach::network
                                     : transport::Reach::host;
  const std::string transport(transport::fastest_transport(reach).name);
  for (const auto& name : settings.against) {
    std::string reason;
    auto peer = Peer::start(*bench::find_peer_kind(name), settings.ranks, transport, reason);
    // With JSON on standard output, what people read goes elsewhere.
    std::FILE* const out = settings.json == "-" ? stderr : stdout;
    if (peer == nullptr) {
      fmt::print(out, "{}", wrapped(reason, kTerminalWidth, "# ", "# "));
    } else {
      const std::string settings = peer->settings().empty() ? "" : ", " + peer->settings();
      fmt::print(out, "{}",
                 wrapped(fmt::format("{}: {} over {}{}", name, peer->library(), peer->transport(), settings),
                         kTerminalWidth, "# ", "# "));
      peers.push_back(std::move(peer));
    }
  }
  std::fflush(stdout);
  return peers;
}

std::uint64_t run_grid(const Settings& settings, Communicator communicator) {
  cli::JsonLines json(communicator.rank() == 0 ? settings.json : "", settings.append);
  if (!settings.append)
    json.write(bench::machine_line(bench::this_machine(), version(), settings.neighbours));
  const bench::Grid grid = bench::measure_grid(
      settings, communicator, selection::slow_hosts(situation_of(communicator).bandwidth), json);
  const selection::Setting setting = situation_of(communicator).setting();
  const selection::CostModel costs =
      settings.table.empty() ? selection::CostModel() : measure_costs(communicator);
  if (communicator.rank() != 0) return 0;
  if (!json.replaces_text()) {
    fmt::print("# {}, {} ranks over {}, {} {}\n{}", name_of(settings.kind), communicator.size(),
               setting.links, kolo::name_of(settings.dtype),
               settings.shared_memory ? "in shared memory" : "in private memory",
               bench::grid_table(grid, settings.wide));
    if (grid.wrong > 0) fmt::print("# WRONG: {} elements\n", grid.wrong);
    std::fflush(stdout);
  }
  if (!settings.table.empty()) {
    selection::update_table(settings.table, [&](selection::TuningTable& table) {
      table.set_model(setting, costs);
      bench::learn(grid, settings.kind, setting, table);
    }).throw_if_error();
  }
  return grid.wrong;
}

// Runs one rank; `make` creates its communicator. Every rank reports its errors, because the launcher stops
// the other ranks when the first one ends.
template <typename Make>
int take_part(const Settings& settings, int rank, Peers& peers, Make make) {
  try {
    const std::uint64_t wrong = settings.algorithm == bench::kEveryAlgorithm
                                    ? run_grid(settings, make())
                                    : bench::run(settings, make(), peers);
    return wrong == 0 ? 0 : kWrong;
  } catch (const InvalidArgumentError& error) {
    return report(rank, error, kBenchUsage);
  } catch (const std::exception& error) {
    return report(rank, error, kWrong);
  }
}

int run_as_threads(const Settings& settings) {
  const bench::Neighbours neighbours(settings.neighbours);
  Peers peers = start_peers(settings);
  const auto store = make_memory_store();
  std::vector<int> codes(static_cast<std::size_t>(settings.ranks));
  std::promise<bool>
      complete;  // no rank begins before all threads exist, because it would wait for the missing ranks
  const std::shared_future<bool> begin = complete.get_future().share();
  const auto be_rank = [&](int rank) {
    if (!begin.get()) return;
    Peers no_peers;
    codes[static_cast<std::size_t>(rank)] = take_part(settings, rank, rank == 0 ? peers : no_peers, [&] {
      return Communicator::create(store, rank, settings.ranks, communicator_options(settings));
    });
  };
  std::vector<std::thread> threads;
  std::string problem;
  try {
    while (std::ssize(threads) < settings.ranks)
      threads.emplace_back(be_rank, static_cast<int>(threads.size()));
  } catch (const std::system_error& error) {
    problem = fmt::format("no thread for rank {}: {}", threads.size(), error.what());
  }
  complete.set_value(problem.empty());
  for (auto& thread : threads) thread.join();
  if (!problem.empty()) throw std::runtime_error(problem);
  return *std::max_element(codes.begin(), codes.end());
}

int run_as_rank(Settings settings, const Launch& launch) {
  settings.ranks = launch.size;
  if (!settings.against.empty() && launch.local_size != launch.size) {
    refuse("--against compares on one machine only, and these ranks are on several");
  }
  Peers peers;
  if (launch.rank == 0) peers = start_peers(settings);
  const bench::Neighbours neighbours(launch.rank == 0 ? settings.neighbours : bench::Neighbourhood{});
  return take_part(settings, launch.rank, peers,
                   [&] { return Communicator::create(communicator_options(settings)); });
}

// Starts this command again, once for each rank.
int start_ranks(const Settings& settings, const std::vector<std::string>& arguments) {
  LaunchOptions options;
  options.ranks = settings.ranks;
  options.prefix_output = false;
  options.command = {bench::program_path()};
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  if (::isatty(STDERR_FILENO) != 0) options.command.push_back("--progress");
  return launch_ranks(options).status();
}

int run_bench(const RawSettings& raw, const std::vector<std::string>& arguments) {
  Settings settings = bench::check_settings(raw);
  const Launch launch = launch_from_environment();
  if (launch.launcher != "none") return run_as_rank(std::move(settings), launch);
  const transport::TransportFactory* const transport = transport::find_transport(settings.transport);
  if (!transport || transport->reach != transport::Reach::process) return start_ranks(settings, arguments);
  settings.progress = ::isatty(STDERR_FILENO) != 0;
  return run_as_threads(settings);
}

}  // namespace

void add_bench(CLI::App& app, std::vector<std::string> arguments) {
  struct Parsed {
    RawSettings raw;
    bool in_place = false, out_of_place = false;
  };
  const auto parsed = std::make_shared<Parsed>();
  RawSettings& raw = parsed->raw;
  CLI::App* bench = app.add_subcommand("bench", "Time a collective, verify it, compare with others");
  bench->footer(kBenchExamples);
  bench
      ->add_option("COLLECTIVE", raw.collective,
                   "all_reduce, scan, ... (kolo list), or send_recv: round trips between pairs, halved")
      ->required();
  accept_auto(add_value(*bench, "-n,--ranks", raw.ranks, "N",
                        "How many ranks (default: auto, one for each core, at least 2)"));
  add_value(*bench, "--sizes", raw.sizes, "LIST",
            "Sizes of the whole data: 64K, 1.5MiB; ranges FROM:TO:FACTOR");
  add_value(*bench, "--dtype", raw.dtype, "NAME", fmt::format("{}", fmt::join(bench::dtype_names(), ", ")));
  add_value(*bench, "--reduction", raw.reduction, "NAME",
            fmt::format("{}", fmt::join(bench::reduction_names(), ", ")));
  add_value(*bench, "--algorithm", raw.algorithm, "ALGORITHM",
            "By name, as in k_nomial:radix=4; all: every one, and how good kolo's choice is (default: "
            "kolo's choice)");
  add_value(*bench, "--transport", raw.transport, "LIST",
            fmt::format("Any of {}; with {} alone ranks are threads (default: kolo's choice)",
                        fmt::join(transport::transport_names(), ", "),
                        transport::fastest_transport(transport::Reach::process).name));
  add_value(*bench, "--memory", raw.memory, "NAME", "shared: allocated by kolo; private: the program's own");
  add_value(
      *bench, "--device", raw.device, "NAME",
      "Whose memory the calls get: host; cuda: each rank's GPU, which the ranks of a host take in turns; "
      "cuda:1: the second one's");
  auto* in_place =
      bench->add_flag("--in-place", parsed->in_place, "Result where the input was (default where usual)");
  bench->add_flag("--out-of-place", parsed->out_of_place, "Input and result apart")->excludes(in_place);
  add_value(*bench, "--tensors", raw.tensors, "N", "Asynchronous calls at once, all waited for at the end");
  add_value(*bench, "--calls-a-barrier", raw.steps, "N",
            "Calls one after another between two barriers, each on its own data; times are those of a "
            "call, and the mean is compared");
  add_value(*bench, "--against", raw.against, "LIST",
            "What to measure beside kolo: gloo, openmpi, mpich, today's openmpi5, mpich5, intelmpi, oneccl "
            "(scripts/peers-of-today), limit (the machine's memory), exchange (TCP's, sums nothing)");
  add_value(*bench, "--wire", raw.wire, "NAME",
            "The format in which all_reduce of float32 is sent: bfloat16, float16, int8; measured "
            "beside float32 itself");
  add_value(*bench, "--link", raw.link_mbit, "MBIT",
            "With --wire: Mbit/s that TCP gets of a host's link, one rank on each host");
  add_value(*bench, "--compute", raw.compute_ms, "MS",
            "Each rank computes for so long before each call; the time is that of both");
  add_value(*bench, "--neighbours", raw.neighbours.count, "N",
            "Busy processes beside the ranks, on rank 0's host")
      ->capture_default_str();
  add_value(*bench, "--blip", raw.neighbours.blip_us, "BUSY_US,EVERY_US",
            "These are busy for BUSY_US in every EVERY_US, and sleep in between")
      ->delimiter(',');
  add_value(*bench, "--iterations", raw.policy.iterations, "N",
            "Exactly so many (default: by time, at least 20); with --algorithm all a third of them in "
            "each round");
  add_value(*bench, "--warmup", raw.policy.warmup, "N", "Iterations before the clock counts");
  add_value(*bench, "--learn", raw.table, "FILE",
            "With --algorithm all: the tuning table to which times are written");
  add_wide(*bench, raw.wide);
  add_json(*bench, raw.json, "an object a line");
  // Hidden: passed to the ranks by the process that starts them, and by kolo tune.
  bench->add_flag("--progress", raw.progress)->group("");
  bench->add_option("--part", raw.part)->group("");
  bench->add_flag("--append", raw.append)->group("");
  bench->callback([parsed, arguments = std::move(arguments)] {
    if (parsed->in_place || parsed->out_of_place) parsed->raw.in_place = parsed->in_place;
    throw CLI::RuntimeError(run_bench(parsed->raw, arguments));
  });
}

}  // namespace kolo::cli

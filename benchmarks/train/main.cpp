// bench_train: overlap of communication and computation, where ranks have too few cores to compute for real.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "kolo/kolo.hpp"
#include "train/commands.hpp"

namespace {

constexpr const char* kHelp =
    R"(Records when gradients get ready on one idle core, and replays that on all ranks.

  bench_train record --model mlp --batch 64 --output mlp.json      on an idle core
  kolo run -n 2 -- bench_train replay --trace mlp.json             real buckets, real links, timed waits
  kolo run -n 2 -- bench_train train --model mlp --batch 8         computes for real
  kolo run -n 4 -- bench_train tensor --profile layers.json        divided layers, of train_tensor --profile
  kolo run -n 4 -- bench_train pipeline --schedule 1f1b            stages that sleep, and how long ranks idle
  kolo run -n 4 -- bench_train hybrid --profile model.json --data 2 --pipeline 2 --borders 4 --micro-batches 8
  kolo run -n 2 -- bench_train checkpoint --folder /tmp/run        time that a checkpoint takes from training
  kolo run -n 2 -- bench_train fingerprint                         bits to compare with those of another build
  scripts/cluster --hosts 4 --rate 1gbit -- bench_train replay --trace mlp.json --compute 1

Four ranks on two cores share their compute, so how much communication hides under it means nothing there. Replayed
compute is a sleep: the core is free for communication. Where the processor time of communication matters, the bound
counts it.)";

int run(int argc, char** argv) {
  CLI::App app(kHelp);
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  const bool speaks = kolo::launch_from_environment().rank == 0;
  kolo::bench::add_record(app);
  kolo::bench::add_replay(app, speaks);
  kolo::bench::add_train(app, speaks);
  kolo::bench::add_tensor(app, speaks);
  kolo::bench::add_pipeline(app, speaks);
  kolo::bench::add_hybrid(app, speaks);
  kolo::bench::add_checkpoint(app, speaks);
  kolo::bench::add_fingerprint(app, speaks);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    constexpr int kUsage = 2;  // CLI11 has a code for each kind of error
    if (speaks) app.exit(error);
    return error.get_exit_code() == 0 ? 0 : kUsage;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_train: %s\n", error.what());
    return 1;
  }
}

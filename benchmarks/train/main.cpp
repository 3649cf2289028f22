// bench_train: overlap of communication and computation, where ranks have too few cores to compute for real.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "kolo/kolo.hpp"
#include "kolo/train/compression.hpp"
#include "train/hybrid_command.hpp"
#include "train/models.hpp"
#include "train/pipeline_command.hpp"
#include "train/record.hpp"
#include "train/replay.hpp"
#include "train/tensor_command.hpp"
#include "train/train_step.hpp"

namespace {

using namespace kolo::bench;

constexpr const char* kHelp =
    R"(Records when gradients get ready on one idle core, and replays that on all ranks.

  bench_train record --model mlp --batch 64 --output mlp.json      on an idle core
  kolo run -n 2 -- bench_train replay --trace mlp.json             real buckets, real links, timed waits
  kolo run -n 2 -- bench_train train --model mlp --batch 8         computes for real
  kolo run -n 4 -- bench_train tensor --profile layers.json        divided layers, of train_tensor --profile
  kolo run -n 4 -- bench_train pipeline --schedule 1f1b            stages that sleep, and how long ranks idle
  kolo run -n 4 -- bench_train hybrid --profile model.json --data 2 --pipeline 2 --borders 4 --micro-batches 8
  scripts/cluster --hosts 4 --rate 1gbit -- bench_train replay --trace mlp.json --compute 1

Four ranks on two cores share their compute, so how much communication hides under it means nothing there. Replayed
compute is a sleep: the core is free for communication. Where the processor time of communication matters, the bound
counts it.)";

std::string milliseconds(double seconds) {
  return fmt::format("{:.2f}", 1e3 * seconds);
}

void print(const Trace& trace, const ReplayResult& result) {
  fmt::print("replayed: {} of {:.1f} MB in {} buckets, {} ranks (trace of {}, batch {})\n", trace.model,
             1e-6 * static_cast<double>(trace.bytes()), result.buckets, result.ranks, trace.machine,
             trace.batch);
  const auto row = [](const char* name, double value, const std::string& remark) {
    fmt::print("  {:<22}{:>10} ms   {}\n", name, milliseconds(value), remark);
  };
  row("forward", result.forward, "slept");
  row("backward", result.backward,
      fmt::format("slept; the first bucket is complete after {} ms", milliseconds(result.first_bucket)));
  row("optimizer", result.optimizer, "slept");
  row("communication alone", result.communication, "all buckets, nothing computed");
  row("processor time", result.processor, "of all ranks, divided by the cores of this machine");
  row("step", result.step, fmt::format("median; mean {} ms", milliseconds(result.step_mean)));
  row("  exposed", result.exposed, "waited for after backward");
  row("bound", result.bound(),
      "forward + max(backward, first bucket + communication, processor) + optimizer");
  fmt::print("  {:<22}{:>10.3f}\n", "mean step / bound", result.step_mean / result.bound());
  if (result.overlapped) {
    const auto& with = *result.overlapped;
    fmt::print(" averages go on in the next forward:\n");
    row("processor time", with.processor, "");
    row("step", with.step, fmt::format("median; mean {} ms", milliseconds(with.step_mean)));
    row("  exposed", with.exposed, "forward waited");
    row("bound", result.overlapped_bound(),
        "max(forward + backward + optimizer + the first layer's bucket, communication, processor)");
    fmt::print("  {:<22}{:>10.3f}\n", "mean step / bound", with.step_mean / result.overlapped_bound());
  }
  if (result.delayed) {
    const auto& with = *result.delayed;
    fmt::print(" averages arrive one step late:\n");
    row("communication alone", with.communication, "one all_reduce");
    row("computation alone", with.computation, "a step without averages");
    row("processor time", with.processor, "");
    row("step", with.step, fmt::format("median; mean {} ms", milliseconds(with.step_mean)));
    row("  exposed", with.exposed, "step() waited");
    row("bound", result.delayed_bound(), "max(computation, communication)");
    fmt::print("  {:<22}{:>10.3f}\n", "mean step / bound", with.step_mean / result.delayed_bound());
  }
  if (result.measured) {
    const auto& with = *result.measured;
    fmt::print(" borders from measured times: {} buckets\n", with.buckets);
    row("communication alone", with.communication, "");
    row("step", with.step, fmt::format("median; mean {} ms", milliseconds(with.step_mean)));
    row("  exposed", with.exposed, fmt::format("expected {} ms", milliseconds(with.plan.exposed.count())));
    row("bound", result.measured_bound(), "with these buckets");
    fmt::print("  {:<22}{:>10.3f}\n", "mean step / bound", with.step_mean / result.measured_bound());
  }
  if (result.sharded) {
    const auto& with = *result.sharded;
    fmt::print(" the model divided among the ranks:\n");
    row("communication alone", with.communication, "");
    row("step", with.step, fmt::format("median; mean {} ms", milliseconds(with.step_mean)));
    row("  exposed", with.exposed, "waited for averages and for parameters");
    fmt::print("  {:<22}{:>10.3f}\n", "mean step / plain one", with.step_mean / result.step_mean);
    fmt::print("  {:<22}{:>10.0f} B    per rank and step\n", "sent", with.sent_bytes);
    fmt::print(" not divided:\n");
  }
  fmt::print("  {:<22}{:>10.0f} B    per rank and step\n", "sent", result.sent_bytes);
  if (trace.tokens > 0) {
    fmt::print("  {:<22}{:>10.0f}      {} a rank and mean step, {} ranks\n", "tokens a second",
               result.tokens_per_second(trace.tokens), trace.tokens, result.ranks);
  }
}

nlohmann::json json_of(const Trace& trace, const ReplayResult& result, const ReplayOptions& options) {
  const auto& parallel = options.parallel;
  nlohmann::json json = {{"kind", "replayed"},
                         {"hook", parallel.hook ? parallel.hook->describe() : ""},
                         {"wire", parallel.wire ? kolo::name_of(*parallel.wire) : ""},
                         {"model", trace.model},
                         {"trace_machine", trace.machine},
                         {"batch", trace.batch},
                         {"compute_ratio", options.compute_ratio},
                         {"gradient_bytes", trace.bytes()},
                         {"ranks", result.ranks},
                         {"buckets", result.buckets},
                         {"forward_s", result.forward},
                         {"backward_s", result.backward},
                         {"optimizer_s", result.optimizer},
                         {"first_bucket_s", result.first_bucket},
                         {"communication_s", result.communication},
                         {"processor_s", result.processor},
                         {"exposed_s", result.exposed},
                         {"step_s", result.step},
                         {"step_mean_s", result.step_mean},
                         {"bound_s", result.bound()},
                         {"sent_bytes", result.sent_bytes}};
  if (trace.tokens > 0) {
    json["tokens"] = trace.tokens;
    json["tokens_per_s"] = result.tokens_per_second(trace.tokens);
  }
  if (result.overlapped) {
    json["overlapped"] = {{"step_s", result.overlapped->step},
                          {"step_mean_s", result.overlapped->step_mean},
                          {"exposed_s", result.overlapped->exposed},
                          {"processor_s", result.overlapped->processor},
                          {"first_layer_s", result.overlapped->first_layer},
                          {"bound_s", result.overlapped_bound()}};
  }
  if (result.delayed) {
    json["delayed"] = {{"step_s", result.delayed->step},
                       {"step_mean_s", result.delayed->step_mean},
                       {"exposed_s", result.delayed->exposed},
                       {"processor_s", result.delayed->processor},
                       {"communication_s", result.delayed->communication},
                       {"computation_s", result.delayed->computation},
                       {"bound_s", result.delayed_bound()}};
  }
  if (result.sharded) {
    json["sharded"] = {{"step_s", result.sharded->step},
                       {"step_mean_s", result.sharded->step_mean},
                       {"exposed_s", result.sharded->exposed},
                       {"processor_s", result.sharded->processor},
                       {"communication_s", result.sharded->communication},
                       {"sent_bytes", result.sharded->sent_bytes}};
  }
  if (result.measured) {
    json["measured"] = {{"buckets", result.measured->buckets},
                        {"step_s", result.measured->step},
                        {"step_mean_s", result.measured->step_mean},
                        {"exposed_s", result.measured->exposed},
                        {"expected_exposed_s", result.measured->plan.exposed.count()},
                        {"bucket_latency_s", result.measured->plan.latency.count()},
                        {"bucket_mebibyte_s", result.measured->plan.per_mebibyte.count()},
                        {"communication_s", result.measured->communication},
                        {"bound_s", result.measured_bound()}};
  }
  return json;
}

void print(const std::string& model, std::int64_t batch, const TrainResult& result, bool as_json) {
  if (as_json) {
    fmt::print("{}\n", nlohmann::json{{"kind", "computed"},
                                      {"model", model},
                                      {"batch", batch},
                                      {"ranks", result.ranks},
                                      {"step_s", result.step},
                                      {"step_mean_s", result.step_mean},
                                      {"parameters", result.parameters},
                                      {"sent_bytes", result.sent_bytes},
                                      {"first_bytes", result.first_bytes},
                                      {"peak_bytes", result.peak_bytes}}
                           .dump());
  } else {
    fmt::print("computed: {}, batch {} a rank, {} ranks: {} ms a step (median; mean {} ms)\n", model, batch,
               result.ranks, milliseconds(result.step), milliseconds(result.step_mean));
    fmt::print(
        "          {:.1f} MB of parameters; resident {:.0f} MB, {:.0f} MB of them before the model; {:.1f} "
        "MB sent a step\n",
        4e-6 * static_cast<double>(result.parameters), 1e-6 * result.peak_bytes, 1e-6 * result.first_bytes,
        1e-6 * result.sent_bytes);
  }
}

int run(int argc, char** argv) {
  CLI::App app(kHelp);
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  const bool speaks = kolo::launch_from_environment().rank == 0;

  auto* recording = app.add_subcommand("record", "Trains a model for some steps and writes their medians");
  std::string model = "mlp", output;
  std::int64_t batch = 64;
  int record_steps = 15;
  recording->add_option("--model", model, "The network")->check(CLI::IsMember(workload_names()));
  recording->add_option("--batch", batch, "Samples a step")->check(CLI::PositiveNumber);
  recording->add_option("--steps", record_steps, "Steps that count")->check(CLI::PositiveNumber);
  recording->add_option("--output", output, "The file")->required();

  auto* replaying = app.add_subcommand("replay", "Replays such a file on all ranks of the job");
  std::string trace_file, wire, hook, timeline;
  ReplayOptions options;
  bool as_json = false;
  replaying->add_option("--trace", trace_file, "The file")->required();
  replaying->add_option("--steps", options.steps, "Steps that count")->check(CLI::PositiveNumber);
  replaying
      ->add_option("--compute", options.compute_ratio,
                   "Computes so many times as long as communication takes alone; 0: as recorded")
      ->check(CLI::NonNegativeNumber);
  replaying
      ->add_option("--seconds", options.compute_seconds, "Computes so many seconds a step; 0: as recorded")
      ->check(CLI::NonNegativeNumber)
      ->excludes("--compute");
  replaying->add_option("--first-bucket", options.parallel.first_bucket_bytes, "Bytes of the first bucket");
  replaying->add_option("--bucket", options.parallel.bucket_bytes, "Bytes of the others");
  replaying->add_option("--hook", hook,
                        "How buckets are averaged in place of all_reduce: int8, power_sgd:rank=2, ...");
  replaying->add_option("--wire", wire, "The format in which all_reduce sends gradients")
      ->check(CLI::IsMember({"native", "bfloat16", "float16", "int8"}));
  replaying->add_flag("--overlap-forward", options.overlap_forward,
                      "Also with averages that go on in the next forward, in turns");
  replaying
      ->add_flag("--delayed-averages", options.delayed_averages,
                 "Also with averages that arrive one step late, in turns")
      ->excludes("--overlap-forward");
  replaying
      ->add_flag("--measured-borders", options.measured_borders,
                 "Also with borders of buckets from measured times, in turns")
      ->excludes("--overlap-forward")
      ->excludes("--delayed-averages");
  std::string shard;
  replaying->add_option("--shard", shard, "Also with a model of which each rank keeps a part, in turns")
      ->check(CLI::IsMember(kolo::shard_names()))
      ->excludes("--overlap-forward")
      ->excludes("--delayed-averages")
      ->excludes("--measured-borders");
  replaying->add_option("--timeline", timeline, "Writes when buckets and waits were, as a Chrome trace");
  replaying->add_flag("--json", as_json, "One JSON object");
  replaying->add_option("--output", output, "Writes this object to a file too");

  auto* training = app.add_subcommand("train", "Computes for real on all ranks of the job, one thread each");
  int train_steps = 20;
  training->add_option("--model", model, "The network")->check(CLI::IsMember(workload_names()));
  training->add_option("--batch", batch, "Samples a step and rank")->check(CLI::PositiveNumber);
  training->add_option("--steps", train_steps, "Steps that count")->check(CLI::PositiveNumber);
  TrainOptions train_options;
  training->add_flag("--bfloat16", train_options.in_bfloat16, "Products in bfloat16, weights in float32");
  training->add_flag("--adam", train_options.uses_adam, "Adam in place of SGD with momentum");
  training->add_option("--shard", shard, "Each rank keeps a part of these; empty: DistributedDataParallel")
      ->check(CLI::IsMember(kolo::shard_names()));
  training->add_flag("--json", as_json, "One JSON object");

  const TensorCommand tensor(app);
  const PipelineCommand pipeline(app);
  const HybridCommand hybrid(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream silence;
    return speaks ? app.exit(error) : app.exit(error, silence, silence);
  }

  if (recording->parsed()) {
    const Trace trace = record(model, batch, record_steps);
    write_trace(output, trace);
    fmt::print("{}: forward {} ms, backward {} ms, optimizer {} ms, {:.1f} MB of gradients\n", model,
               milliseconds(trace.forward), milliseconds(trace.backward), milliseconds(trace.optimizer),
               1e-6 * static_cast<double>(trace.bytes()));
    return 0;
  }
  if (training->parsed()) {
    train_options.model = model;
    train_options.batch = batch;
    train_options.steps = train_steps;
    if (!shard.empty()) train_options.shard = kolo::parse_shard(shard);
    const TrainResult result = train(train_options, kolo::Communicator::create());
    if (speaks) print(model, batch, result, as_json);
    return 0;
  }
  if (tensor.parsed()) {
    tensor.run(speaks);
    return 0;
  }
  if (pipeline.parsed()) {
    pipeline.run(speaks);
    return 0;
  }
  if (hybrid.parsed()) {
    hybrid.run(speaks);
    return 0;
  }
  const Trace trace = read_trace(trace_file);
  if (!hook.empty()) options.parallel.hook = kolo::make_gradient_hook(hook);
  kolo::Wire format{};
  if (kolo::parse_wire(wire, format)) options.parallel.wire = format;
  if (!shard.empty()) options.shard = kolo::parse_shard(shard);
  if (!timeline.empty()) options.parallel.timeline = std::make_shared<kolo::Timeline>();
  std::ofstream file;
  if (speaks && !output.empty()) {
    file.open(output);
    if (!file) throw std::runtime_error("cannot write " + output);
  }
  kolo::Communicator communicator = kolo::Communicator::create();
  const ReplayResult result = replay(trace, communicator, options);
  if (!timeline.empty()) kolo::write_timeline(communicator, *options.parallel.timeline, timeline);
  if (!speaks) return 0;
  const std::string json = json_of(trace, result, options).dump();
  if (file.is_open() && !(file << json << '\n' << std::flush))
    throw std::runtime_error("cannot write " + output);
  if (as_json) {
    fmt::print("{}\n", json);
  } else {
    print(trace, result);
  }
  return 0;
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

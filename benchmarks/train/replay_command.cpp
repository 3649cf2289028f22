// bench_train replay: its options, its table and its JSON.
#include <memory>
#include <string>

#include "kolo/kolo.hpp"
#include "kolo/train/hooks.hpp"
#include "train/commands.hpp"
#include "train/json.hpp"
#include "train/replay.hpp"

namespace kolo::bench {
namespace {

using nlohmann::json;

struct ReplaySettings {
  std::string trace, wire, hook, shard, timeline;
  ReplayOptions replay;
  JsonOutput output;
};

std::string milliseconds(double seconds) {
  return fmt::format("{:.2f}", 1e3 * seconds);
}

void print_row(const char* name, double seconds, const std::string& remark) {
  fmt::print("  {:<22}{:>10} ms   {}\n", name, milliseconds(seconds), remark);
}

void print_step(const StepSummary& times, const std::string& exposed) {
  print_row("step", times.step, fmt::format("median; mean {} ms", milliseconds(times.step_mean)));
  print_row("  exposed", times.exposed, exposed);
}

void print_bound(const StepSummary& times, double bound, const char* formula) {
  print_row("bound", bound, formula);
  fmt::print("  {:<22}{:>10.3f}\n", "mean step / bound", times.step_mean / bound);
}

void print_sent(double bytes) {
  fmt::print("  {:<22}{:>10.0f} B    per rank and step\n", "sent", bytes);
}

void print(const Trace& trace, const ReplayResult& result) {
  fmt::print("replayed: {} of {:.1f} MB in {} buckets, {} ranks (trace of {}, batch {})\n", trace.model,
             1e-6 * static_cast<double>(trace.bytes()), result.buckets, result.ranks, trace.machine,
             trace.batch);
  print_row("forward", result.forward, "slept");
  print_row(
      "backward", result.backward,
      fmt::format("slept; the first bucket is complete after {} ms", milliseconds(result.first_bucket)));
  print_row("optimizer", result.optimizer, "slept");
  print_row("communication alone", result.communication, "all buckets, nothing computed");
  print_row("processor time", result.processor, "of all ranks, divided by the cores of this machine");
  print_step(result, "waited for after backward");
  print_bound(result, result.bound(),
              "forward + max(backward, first bucket + communication, processor) + optimizer");
  if (const auto& with = result.overlapped) {
    fmt::print(" averages go on in the next forward:\n");
    print_row("processor time", with->processor, "");
    print_step(*with, "forward waited");
    print_bound(*with, result.overlapped_bound(),
                "max(forward + backward + optimizer + the first layer's bucket, communication, processor)");
  }
  if (const auto& with = result.delayed) {
    fmt::print(" averages arrive one step late:\n");
    print_row("communication alone", with->communication, "one all_reduce");
    print_row("computation alone", with->computation, "a step without averages");
    print_row("processor time", with->processor, "");
    print_step(*with, "step() waited");
    print_bound(*with, result.delayed_bound(), "max(computation, communication)");
  }
  if (const auto& with = result.measured) {
    fmt::print(" borders from measured times: {} buckets\n", with->buckets);
    print_row("communication alone", with->communication, "");
    print_step(*with, fmt::format("expected {} ms", milliseconds(with->plan.exposed.count())));
    print_bound(*with, result.measured_bound(), "with these buckets");
  }
  if (const auto& with = result.sharded) {
    fmt::print(" the model divided among the ranks:\n");
    print_row("communication alone", with->communication, "");
    print_step(*with, "waited for averages and for parameters");
    fmt::print("  {:<22}{:>10.3f}\n", "mean step / plain one", with->step_mean / result.step_mean);
    print_sent(with->sent_bytes);
    fmt::print(" not divided:\n");
  }
  print_sent(result.sent_bytes);
  if (trace.tokens > 0) {
    fmt::print("  {:<22}{:>10.0f}      {} a rank and mean step, {} ranks\n", "tokens a second",
               result.tokens_per_second(trace.tokens), trace.tokens, result.ranks);
  }
}

json json_of(const StepSummary& times, const json& others) {
  json object = {{"step_s", times.step},
                 {"step_mean_s", times.step_mean},
                 {"exposed_s", times.exposed},
                 {"processor_s", times.processor}};
  object.update(others);
  return object;
}

json json_of(const Trace& trace, const ReplayResult& result, const ReplayOptions& options) {
  const auto& parallel = options.parallel;
  json object = json_of(result, {{"kind", "replayed"},
                                 {"hook", parallel.hook ? parallel.hook->describe() : ""},
                                 {"wire", parallel.wire ? name_of(*parallel.wire) : ""},
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
                                 {"bound_s", result.bound()},
                                 {"sent_bytes", result.sent_bytes}});
  if (trace.tokens > 0) {
    object["tokens"] = trace.tokens;
    object["tokens_per_s"] = result.tokens_per_second(trace.tokens);
  }
  if (const auto& with = result.overlapped) {
    object["overlapped"] =
        json_of(*with, {{"first_layer_s", with->first_layer}, {"bound_s", result.overlapped_bound()}});
  }
  if (const auto& with = result.delayed) {
    object["delayed"] = json_of(*with, {{"communication_s", with->communication},
                                        {"computation_s", with->computation},
                                        {"bound_s", result.delayed_bound()}});
  }
  if (const auto& with = result.sharded) {
    object["sharded"] =
        json_of(*with, {{"communication_s", with->communication}, {"sent_bytes", with->sent_bytes}});
  }
  if (const auto& with = result.measured) {
    object["measured"] = json_of(*with, {{"buckets", with->buckets},
                                         {"expected_exposed_s", with->plan.exposed.count()},
                                         {"bucket_latency_s", with->plan.latency.count()},
                                         {"bucket_mebibyte_s", with->plan.per_mebibyte.count()},
                                         {"communication_s", with->communication},
                                         {"bound_s", result.measured_bound()}});
  }
  return object;
}

void run_replay(ReplaySettings& settings, bool speaks) {
  ReplayOptions options = settings.replay;
  const Trace trace = read_trace(settings.trace);
  if (!settings.hook.empty()) options.parallel.hook = make_gradient_hook(settings.hook);
  Wire format{};
  if (parse_wire(settings.wire, format)) options.parallel.wire = format;
  if (!settings.shard.empty()) options.shard = parse_shard(settings.shard);
  if (!settings.timeline.empty()) options.parallel.timeline = std::make_shared<Timeline>();
  if (speaks) settings.output.open();
  Communicator communicator = Communicator::create();
  const ReplayResult result = replay(trace, communicator, options);
  if (!settings.timeline.empty()) write_timeline(communicator, *options.parallel.timeline, settings.timeline);
  if (speaks && !settings.output.write(json_of(trace, result, options))) print(trace, result);
}

}  // namespace

void add_replay(CLI::App& app, bool speaks) {
  const auto settings = std::make_shared<ReplaySettings>();
  ReplaySettings& s = *settings;
  ReplayOptions& replay = s.replay;
  CLI::App* command = app.add_subcommand("replay", "Replays such a file on all ranks of the job");
  command->add_option("--trace", s.trace, "The file")->required();
  command->add_option("--steps", replay.steps, "Steps that count")->check(CLI::PositiveNumber);
  command
      ->add_option("--compute", replay.compute_ratio,
                   "Computes so many times as long as communication takes alone; 0: as recorded")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--seconds", replay.compute_seconds, "Computes so many seconds a step; 0: as recorded")
      ->check(CLI::NonNegativeNumber)
      ->excludes("--compute");
  command->add_option("--first-bucket", replay.parallel.first_bucket_bytes, "Bytes of the first bucket");
  command->add_option("--bucket", replay.parallel.bucket_bytes, "Bytes of the others");
  command->add_option("--hook", s.hook,
                      "How buckets are averaged in place of all_reduce: int8, power_sgd:rank=2, ...");
  command->add_option("--wire", s.wire, "The format in which all_reduce sends gradients")
      ->check(CLI::IsMember({"native", "bfloat16", "float16", "int8"}));
  command->add_flag("--overlap-forward", replay.overlap_forward,
                    "Also with averages that go on in the next forward, in turns");
  command
      ->add_flag("--delayed-averages", replay.delayed_averages,
                 "Also with averages that arrive one step late, in turns")
      ->excludes("--overlap-forward");
  command
      ->add_flag("--measured-borders", replay.measured_borders,
                 "Also with borders of buckets from measured times, in turns")
      ->excludes("--overlap-forward")
      ->excludes("--delayed-averages");
  command->add_option("--shard", s.shard, "Also with a model of which each rank keeps a part, in turns")
      ->check(CLI::IsMember(shard_names()))
      ->excludes("--overlap-forward")
      ->excludes("--delayed-averages")
      ->excludes("--measured-borders");
  command->add_option("--timeline", s.timeline, "Writes when buckets and waits were, as a Chrome trace");
  s.output.add_to(*command);
  command->callback([settings, speaks] { run_replay(*settings, speaks); });
}

}  // namespace kolo::bench

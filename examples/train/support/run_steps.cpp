#include "support/run_steps.hpp"

#include <fmt/format.h>

#include "kolo/train/checkpoint.hpp"

namespace support {

void add_elastic(CLI::App& app, Elastic& elastic) {
  auto* const flag = app.add_flag(
      "--elastic", elastic.is_on,
      "Go on whichever rank dies, and take newcomers in, as under kolo run --elastic; a signal ends its rank "
      "alone");
  app.add_option("--record", elastic.record, "Folder in which each process writes which samples it takes")
      ->needs(flag);
}

std::uint64_t run_steps(const Elastic& elastic, kolo::Communicator& communicator,
                        const kolo::ElasticOptions& options, const kolo::ElasticSetup& setup,
                        const kolo::ElasticStep& step) {
  if (elastic.is_on) return kolo::run_elastic(communicator, options, setup, step);
  kolo::Checkpoint state;
  setup(communicator, state);
  std::uint64_t finished = options.folder.empty() ? 0 : state.resume(options.folder, communicator);
  options.on_change({.rank = communicator.rank(),
                     .size = communicator.size(),
                     .step = finished,
                     .origin = finished > 0 ? options.folder : "the start"});
  while (step(communicator, finished)) ++finished;
  state.wait();
  return finished;
}

std::string describe(const kolo::ElasticChange& change) {
  return fmt::format("{} {} on after step {} with {}, after {:.3f} s{}{}", change.size,
                     change.size == 1 ? "rank goes" : "ranks go", change.step, change.origin,
                     std::chrono::duration<double>(change.lost).count(), change.why.empty() ? "" : ": ",
                     change.why);
}

}  // namespace support

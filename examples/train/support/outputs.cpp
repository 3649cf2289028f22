#include "support/outputs.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "support/results.hpp"

namespace support {
namespace {

std::shared_ptr<kolo::Timeline> paused() {
  auto timeline = std::make_shared<kolo::Timeline>();
  timeline->pause(true);
  return timeline;
}

kolo::Options with(const std::shared_ptr<kolo::Timeline>& timeline) {
  kolo::Options options;
  options.timeline = timeline;
  return options;
}

}  // namespace

Timed::Timed() : timeline(paused()), communicator(kolo::Communicator::create(with(timeline))) {}

void Timed::write_results(const std::string& folder, const std::string& picture,
                          const std::function<std::string()>& draw,
                          const std::function<std::string()>& metrics) {
  if (folder.empty()) return;
  const std::filesystem::path path(folder);
  const bool writes = communicator.rank() == 0;
  if (writes) {
    std::filesystem::create_directories(path);
    write_file(path / "metrics.json", metrics());
    write_file(path / picture, draw());
  }
  kolo::write_timeline(communicator, *timeline, path / "timeline.json");
  if (!writes) return;
  const int width = static_cast<int>(std::max(picture.size(), sizeof "timeline.json" - 1));
  const auto say = [&](const std::string& name, const char* what) {
    std::printf("  %s/%-*s  %s\n", folder.c_str(), width, name.c_str(), what);
  };
  std::printf("\n");
  say(picture, "the curves");
  say("timeline.json",
      "what each rank did when: open it at https://ui.perfetto.dev, which reads it on this machine");
  say("metrics.json", "all numbers");
}

int Timed::interrupted(int signal, std::int64_t steps) const {
  if (communicator.rank() == 0)
    std::printf("\nstopped by signal %d after step %lld\n", signal, static_cast<long long>(steps));
  return 128 + signal;
}

}  // namespace support

// Trains on, whichever rank dies and whichever comes: all regroup(), take the model from rank 0 and divide
// the data anew. Start it with
//
//     kolo run --elastic 1:4 -- survive model.checkpoint
//
// and kill a rank while it runs: kolo starts it again, and it comes in. A job that is started again with the
// same file goes on from the checkpoint there. The file must be where every rank that may become rank 0 finds
// it.
#include <kolo/kolo.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace {

constexpr std::size_t kFeatures = 16;
constexpr std::size_t kSamples = 100'000;
constexpr double kRate = 0.002;
constexpr std::int64_t kStepsPerCheckpoint = 50;

/// All that training needs to go on.
struct Model {
  std::int64_t step = 0;
  std::array<double, kFeatures> weights{};
};

struct Sample {
  std::array<float, kFeatures> x;
  float y;
};

/// The same on every rank.
std::vector<Sample> make_samples() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<Sample> samples(kSamples);
  for (Sample& sample : samples) {
    sample.y = 0.1F * normal(random);
    for (std::size_t i = 0; i < kFeatures; ++i) {
      sample.x[i] = normal(random);
      sample.y += sample.x[i] * static_cast<float>(i);
    }
  }
  return samples;
}

[[noreturn]] void fail(const std::string& path) {
  throw std::system_error(errno, std::generic_category(), path);
}

/// Whenever a rank is killed, the old checkpoint or the new one is there, whole: the file is written under
/// another name, forced to the disk, and renamed.
void save(const Model& model, const std::string& path) {
  const std::string unfinished = path + "." + std::to_string(::getpid());
  const int fd = ::open(unfinished.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
  if (fd < 0) fail(unfinished);
  const bool is_written = ::write(fd, &model, sizeof model) == sizeof model && ::fsync(fd) == 0;
  const int error = errno;
  ::close(fd);
  if (!is_written) {
    ::unlink(unfinished.c_str());
    throw std::system_error(error, std::generic_category(), unfinished);
  }
  std::filesystem::rename(unfinished, path);
}

Model load(const std::string& path) {
  Model model;
  if (!std::filesystem::exists(path)) return model;
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) fail(path);
  const bool is_whole = std::fread(&model, sizeof model, 1, file) == 1;
  std::fclose(file);
  if (!is_whole) throw std::runtime_error(path + ": not a checkpoint");
  return model;
}

/// Collective: all ranks go on from the model of rank 0, or from the checkpoint if that is ahead.
void share(kolo::Communicator& ranks, Model& model, const std::string& path) {
  if (ranks.rank() == 0) {
    if (const Model saved = load(path); saved.step > model.step) model = saved;
  }
  ranks.broadcast(kolo::Buffer(&model.step, 1, kolo::DType::int64), 0);
  ranks.broadcast(kolo::Buffer(model.weights.data(), kFeatures, kolo::DType::float64), 0);
}

struct Outcome {
  double loss = 0;  ///< the mean
  bool has_newcomers = false;
};

/// One step of gradient descent on least squares. This rank's part of the samples follows from its number and
/// from how many ranks there are now. A step that fails leaves the model as it was.
Outcome take_step(kolo::Communicator& ranks, const std::vector<Sample>& samples, Model& model) {
  const auto rank = static_cast<std::size_t>(ranks.rank()), size = static_cast<std::size_t>(ranks.size());
  std::array<double, kFeatures + 2> sums{};  // the gradient, the loss, and whether newcomers wait
  for (std::size_t s = kSamples * rank / size; s < kSamples * (rank + 1) / size; ++s) {
    double error = -samples[s].y;
    for (std::size_t i = 0; i < kFeatures; ++i) error += model.weights[i] * samples[s].x[i];
    for (std::size_t i = 0; i < kFeatures; ++i) sums[i] += error * samples[s].x[i];
    sums[kFeatures] += error * error / 2;
  }
  sums[kFeatures + 1] = ranks.has_newcomers() ? 1 : 0;
  ranks.all_reduce(kolo::Buffer(sums.data(), sums.size(), kolo::DType::float64));
  for (std::size_t i = 0; i < kFeatures; ++i) model.weights[i] -= kRate * sums[i] / kSamples;
  ++model.step;
  return {sums[kFeatures] / kSamples, sums[kFeatures + 1] > 0};
}

/// Until all steps are done, or newcomers wait. Whether all are done.
bool train(kolo::Communicator& ranks, const std::vector<Sample>& samples, Model& model, std::int64_t steps,
           const std::string& path) {
  while (model.step < steps) {
    const auto [loss, has_newcomers] = take_step(ranks, samples, model);
    if (has_newcomers) return false;
    if (ranks.rank() != 0 || model.step % kStepsPerCheckpoint != 0) continue;
    save(model, path);
    std::printf("step %lld: loss %.6f\n", static_cast<long long>(model.step), loss);
    std::fflush(stdout);
  }
  if (ranks.rank() == 0) save(model, path);
  ranks.barrier();  // no rank leaves before the last checkpoint is there
  return true;
}

void run(const std::string& path, std::int64_t steps) {
  const std::vector<Sample> samples = make_samples();
  kolo::Communicator ranks = kolo::Communicator::create();
  std::printf("rank %d of %d is process %d\n", ranks.rank(), ranks.size(), static_cast<int>(::getpid()));
  std::fflush(stdout);
  Model model;
  for (bool is_done = false; !is_done;) {
    try {
      share(ranks, model, path);
      if (ranks.rank() == 0)
        std::printf("%d ranks go on from step %lld\n", ranks.size(), static_cast<long long>(model.step));
      is_done = train(ranks, samples, model, steps, path);
    } catch (const kolo::PeerLostError& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    // More ranks may die at any time: then the next collective throws, and the loop begins again.
    if (!is_done) ranks = ranks.regroup();
  }
  std::printf("rank %d of %d ends at step %lld with weights", ranks.rank(), ranks.size(),
              static_cast<long long>(model.step));
  for (const double weight : model.weights) std::printf(" %.9f", weight);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: survive CHECKPOINT [STEPS]\n");
    return 2;
  }
  try {
    run(argv[1], argc > 2 ? std::atoll(argv[2]) : 1000);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

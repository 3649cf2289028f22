#include "bench/runner.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "bench/contestants.hpp"
#include "bench/machine.hpp"
#include "bench/progress.hpp"
#include "bench/row.hpp"
#include "bench/table.hpp"
#include "kolo/store.hpp"
#include "kolo/version.hpp"
#include "text/json_lines.hpp"
#include "text/size.hpp"

namespace kolo::bench {
namespace {

// Compared libraries alternate in several rounds, so that a noisy moment of the machine affects them all.
constexpr int kRoundsInTurns = 5;

Policy policy_of_a_round(Policy whole, int rounds) {
  const auto share = [&](int n) { return (n + rounds - 1) / rounds; };
  whole.warmup = share(whole.warmup);
  whole.iterations = share(whole.iterations);
  whole.min_iterations = share(whole.min_iterations);
  whole.max_iterations = share(whole.max_iterations);
  whole.min_seconds /= rounds;
  return whole;
}

// The algorithms of a peer for further rounds: its fastest one and those close to it.
std::vector<std::string> promising(const std::vector<Sample>& samples) {
  std::vector<std::string> names;
  const Sample* fastest = best(samples);
  for (const Sample& sample : samples) {
    if (summarize(sample.times_us).min <= 1.5 * summarize(fastest->times_us).min || &sample == fastest) {
      names.push_back(sample.algorithm);
    }
  }
  return names;
}

/// Rewriting of as much memory as the case has.
Case rewriting_of(Case what) {
  what.count = what.bytes() / size_of(what.dtype);
  what.kind = Kind::all_reduce;
  what.in_place = true;
  what.wire = Wire::native;
  what.compute_ms = 0;
  what.rewrites = true;
  return what;
}

/// Copies of as much memory as a call has.
Case copies_of(const Case& what) {
  Case copies = rewriting_of(what);
  copies.steps = 1;
  return copies;
}

std::optional<int> gpu_of_rank(const Settings& settings, const Communicator& communicator) {
  if (!settings.is_on_gpu || settings.gpu) return settings.gpu;
  const Launch launch = launch_from_environment();
  return gpu_of(launch.launcher == "none" ? communicator.rank() : launch.local_rank);
}

class Runner {
 public:
  Runner(const Settings& settings, const Communicator& communicator,
         std::vector<std::unique_ptr<Peer>>& peers)
      : settings_(settings),
        kolo_(communicator, settings.algorithm, settings.shared_memory, gpu_of_rank(settings, communicator)),
        peers_(peers),
        leads_(kolo_.rank() == 0),
        json_(leads_ ? settings.json : ""),
        progress_(leads_ && settings.progress, Part::parse(settings.part)),
        table_(heading()) {
    if (settings.is_on_gpu) host_.emplace(communicator, settings.algorithm, settings.shared_memory);
  }

  std::uint64_t run() {
    if (leads_) {
      print(table_.heading());
      json_.write(machine_line(this_machine(), version(), settings_.neighbours));
    }
    for (const std::uint64_t size : settings_.sizes) {
      settings_.wire == Wire::native ? measure_size(size) : measure_rounded(size);
      ++sizes_done_;
    }
    if (leads_) print(table_.footer(wrong_, rewrite_gbps_, rewrite_bytes_));
    return wrong_;
  }

 private:
  Case case_of(std::uint64_t bytes) const {
    Case what =
        make_case(settings_.kind, bytes, kolo_.size(), settings_.dtype, settings_.op, settings_.in_place);
    what.tensors = settings_.tensors;
    what.steps = settings_.steps;
    what.wire = settings_.wire;
    what.compute_ms = settings_.compute_ms;
    return what;
  }

  Heading heading() const {
    std::vector<std::string> names;
    for (const auto& peer : peers_) names.push_back(peer->name());
    if (settings_.is_on_gpu && settings_.wire == Wire::native) names = {"copies", "host"};
    return {version(),  this_machine(), kolo_.transports(),   settings_.memory_name(),
            case_of(1), names,          settings_.neighbours, settings_.wide};
  }

  /// Measures kolo alternately with and without a wire format.
  void measure_rounded(std::uint64_t bytes) {
    const Case what = case_of(bytes);
    Case plain = what;
    plain.wire = Wire::native;
    const Policy policy = policy_of_a_round(settings_.policy, kRoundsInTurns);
    std::vector<Sample> rounded;
    std::vector<Sample> whole;
    for (int round = 0; round < kRoundsInTurns; ++round) {
      show(fmt::format("{}: round {} of {}", cli::format_size(what.bytes()), round + 1, kRoundsInTurns));
      merge(whole, {measure(kolo_, plain, settings_.algorithm, policy, iteration_)});
      if (round + 1 == kRoundsInTurns) whole.front().algorithm = kolo_.algorithm_used();
      merge(rounded, {measure(kolo_, what, settings_.algorithm, policy, iteration_)});
    }
    rounded.front().algorithm = kolo_.algorithm_used();
    progress_.clear();
    if (!leads_) return;
    const Row row = make_row("kolo", kolo_.transports(), settings_.memory_name(), what, rounded.front());
    const Row native = make_row("kolo", kolo_.transports(), settings_.memory_name(), plain, whole.front());
    json_.write(row_line(native));
    json_.write(row_line(row));
    wrong_ += row.wrong + native.wrong;
    print(table_.rounded_row(row, native, settings_.link_mbit));
  }

  void measure_size(std::uint64_t bytes) {
    const Case what = case_of(bytes);
    const std::string size = cli::format_size(what.bytes());
    // Every rank runs the same number of rounds, but only rank 0 knows whether there are peers.
    const int rounds = settings_.against.empty() && !host_ ? 1 : kRoundsInTurns;
    const Policy policy = policy_of_a_round(settings_.policy, rounds);
    std::vector<Sample> mine;
    std::vector<std::vector<Sample>> theirs(host_ ? 2 : peers_.size());
    for (int round = 0; round < rounds; ++round) {
      show(fmt::format("{}: kolo, round {} of {}", size, round + 1, rounds));
      merge(mine, {measure(kolo_, what, settings_.algorithm, policy, iteration_)});
      if (round + 1 == rounds) mine.front().algorithm = kolo_.algorithm_used();
      if (host_ && what.bytes() > 0) {
        merge(theirs[0], {measure(kolo_, copies_of(what), "copies", policy, iteration_)});
        merge(theirs[1], {measure(*host_, what, settings_.algorithm, policy, iteration_)});
        if (round + 1 == rounds) theirs[1].front().algorithm = host_->algorithm_used();
      }
      for (std::size_t i = 0; i < peers_.size(); ++i) {
        show(fmt::format("{}: {}, round {} of {}", size, peers_[i]->name(), round + 1, rounds));
        const auto algorithms = theirs[i].empty() ? std::vector<std::string>{} : promising(theirs[i]);
        if (round == 0 || !theirs[i].empty())
          merge(theirs[i], measure_peer(*peers_[i], {what, policy, algorithms, iteration_}));
      }
    }
    std::vector<Sample> rewritten;
    if (what.bytes() > 0 && !host_) {
      show(fmt::format("{}: rewriting memory", size));
      rewritten.push_back(
          measure(kolo_, rewriting_of(what), "rewrite", policy_of_a_round(policy, 2), iteration_));
    }
    progress_.clear();
    if (leads_) report(what, mine, rewritten, theirs);
  }

  std::vector<Sample> measure_peer(Peer& peer, const Order& order) {
    const bool failed_before = !peer.failure().empty();
    auto samples = peer.measure(order);
    if (!failed_before && !peer.failure().empty()) {
      progress_.clear();
      print("# " + peer.failure() + "\n");
    }
    return samples;
  }

  void report(const Case& what, const std::vector<Sample>& mine, const std::vector<Sample>& rewritten,
              const std::vector<std::vector<Sample>>& theirs) {
    Row row = make_row("kolo", kolo_.transports(), settings_.memory_name(), what, mine.front());
    json_.write(row_line(row));
    wrong_ += row.wrong;

    std::optional<Row> rewrite;
    if (!rewritten.empty()) {
      rewrite = make_row("rewrite", "memory", settings_.memory_name(), rewriting_of(what), rewritten.front());
      rewrite_gbps_ = 2 * rewrite->algbw * what.ranks;  // each byte is loaded once and stored once
      rewrite_bytes_ = what.bytes() * static_cast<std::uint64_t>(what.tensors);
      rewrite->busbw = rewrite_gbps_;
      json_.write(row_line(*rewrite));
    }

    std::vector<std::optional<Row>> others;
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      const Sample* fastest = best(theirs[i]);
      others.emplace_back();
      if (fastest == nullptr) continue;
      if (host_) {
        others.back() = i == 0
                            ? make_row("copies", "memory", settings_.device, copies_of(what), *fastest)
                            : make_row("kolo", host_->transports(), settings_.host_memory(), what, *fastest);
      } else {
        others.back() =
            make_row(peers_[i]->name(), peers_[i]->transport(), peers_[i]->memory(), what, *fastest);
        others.back()->version = peers_[i]->library();
        others.back()->settings = peers_[i]->settings();
      }
      json_.write(row_line(*others.back()));
      wrong_ += fastest->wrong;
    }
    print(table_.row(row, rewrite, others));
  }

  void show(const std::string& what) {
    progress_.show(what, static_cast<double>(sizes_done_) / static_cast<double>(settings_.sizes.size()));
  }

  void print(const std::string& text) {
    if (json_.replaces_text()) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  const Settings& settings_;
  KoloContestant kolo_;
  std::vector<std::unique_ptr<Peer>>& peers_;
  std::optional<KoloContestant> host_;  ///< beside GPUs
  bool leads_;
  cli::JsonLines json_;
  Progress progress_;
  Table table_;
  std::size_t sizes_done_ = 0;
  std::uint64_t iteration_ = 0;
  std::uint64_t wrong_ = 0;
  double rewrite_gbps_ = 0;
  std::uint64_t rewrite_bytes_ = 0;
};

}  // namespace

std::uint64_t run(const Settings& settings, const Communicator& communicator,
                  std::vector<std::unique_ptr<Peer>>& peers) {
  return Runner(settings, communicator, peers).run();
}

}  // namespace kolo::bench

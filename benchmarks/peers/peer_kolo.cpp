// The same benchmark with kolo itself, so that a comparison across hosts can start and drive all alike. Where
// it runs is said by the environment, as to every program of kolo.
#include <cstdio>

#include "bench/contestants.hpp"
#include "peer.hpp"

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "scripts/compare-network starts this program\n");
    return 2;
  }
  try {
    kolo::bench::KoloContestant contestant(kolo::Communicator::create(), argc == 3 ? argv[2] : "", false);
    return kolo::bench::serve(contestant, argv[1], "kolo");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kolo: %s\n", error.what());
    return 1;
  }
}

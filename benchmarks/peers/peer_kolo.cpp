// The same benchmark with kolo itself, so that a comparison across hosts can start and drive all libraries
// alike. The environment names its rank, as for every program of kolo.
#include "bench/contestants.hpp"
#include "peer.hpp"

int main(int argc, char** argv) {
  using namespace kolo::bench;
  return peer_main(argc, argv, 1, "kolo", [](std::span<char* const> arguments) {
    const std::string algorithm = arguments.size() > 1 ? arguments[1] : "";
    KoloContestant contestant(kolo::Communicator::create(), algorithm, false);
    return serve(contestant, arguments[0], "kolo");
  });
}

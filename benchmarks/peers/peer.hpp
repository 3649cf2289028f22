// The frame of every peer's program: takes orders from kolo bench and answers with times.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "bench/contestant.hpp"
#include "bench/memory.hpp"

namespace kolo::bench {

/// Reports this rank to kolo bench, then measures its orders until it closes the connection. Every rank gets
/// each order over its own line, so that no rank polls while another library is measured. Returns the exit
/// code.
int serve(Contestant& contestant, const std::string& socket, const std::string& library);

/// main() of a peer's program: `run` gets the arguments, of which there are at least as many as `least`, and
/// returns the exit code. `name`: for error messages.
int peer_main(int argc, char** argv, std::size_t least, const char* name,
              const std::function<int(std::span<char* const> arguments)>& run);

}  // namespace kolo::bench

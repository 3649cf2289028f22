// What every peer's program does around its library: takes orders from kolo bench and answers with times.
#pragma once

#include <memory>
#include <string>

#include "bench/contestant.hpp"
#include "bench/memory.hpp"

namespace kolo::bench {

/// Says hello as this rank, then measures what kolo bench orders until it hangs up. Every rank gets each
/// order over its own line, so that a library that polls does not burn a core while others are measured.
/// Returns the program's exit code.
int serve(Contestant& contestant, const std::string& socket, const std::string& library);

}  // namespace kolo::bench

// Fuzzes the unauthenticated input of a transport: both sides of the handshake, and the addresses in the
// store. See tests/fuzz/CMakeLists.txt; without libFuzzer the unit test calls it with mutated inputs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "net/handshake.hpp"
#include "transport/inproc/address.hpp"
#include "transport/shm/address.hpp"
#include "transport/tcp/address.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kolo;
  const net::Identity me{"job", "key", 3};
  for (const bool dials : {false, true}) {
    net::Handshake handshake = dials ? net::Handshake::dial(me, 1) : net::Handshake::accept(me);
    auto rest = std::as_bytes(std::span(data, size));
    while (!rest.empty() && handshake.wanted() > 0) {
      // The first byte of each round is the number of bytes that arrive at a time.
      const std::size_t step =
          std::min({rest.size(), handshake.wanted(), std::to_integer<std::size_t>(rest[0]) + 1});
      if (!handshake.feed(rest.first(step)).ok()) break;
      rest = rest.subspan(step);
      if (handshake.take_output().size() > 1024) __builtin_trap();
    }
    if (handshake.done()) __builtin_trap();  // the key cannot be guessed
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto address = transport::shm::Address::parse(text)) {
    if (!transport::shm::same_place(*address, *transport::shm::Address::parse(address->text())))
      __builtin_trap();
  }
  if (const auto address = transport::tcp::Address::parse(text)) {
    if (address->at.empty() || !transport::tcp::Address::parse(address->text())) __builtin_trap();
    if (transport::tcp::candidates(*address, *address).empty()) __builtin_trap();
  }
  transport::inproc::same_process(text, text);
  return 0;
}

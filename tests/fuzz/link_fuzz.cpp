// Fuzzes a peer's bytes to a Link with pending receives and sends. See tests/fuzz/CMakeLists.txt; without
// libFuzzer the unit test calls it with mutated inputs.
#include <cstddef>
#include <cstdint>

#include "fuzz/link_pipe.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kolo;
  using namespace kolo::test;
  if (size < 1) return 0;
  const auto state = std::make_shared<PipeState>();
  state->random.seed(data[0]);
  state->most_at_once = data[0] % 2 == 0 ? 200 : 100'000;
  state->room = data[0] % 4 < 2 ? 3000 : 1 << 20;
  Heard heard;
  MemoryPool memory;
  transport::Link link(1, std::make_unique<PipeEnd>(state, 0), heard, memory);
  std::vector<std::unique_ptr<Message>> messages;
  for (std::uint32_t i = 0; i < 6; ++i) {
    const std::uint64_t length = i % 2 == 0 ? 16 * i : 9000 + i;
    messages.push_back(std::make_unique<Message>(transport::Tag{1, i, 1}, length));
    messages.back()->data = messages.back()->memory.data();
    messages.back()->acknowledged = i >= 3;
    link.post_send(*messages.back());
    messages.push_back(std::make_unique<Message>(transport::Tag{1, i, 1}, length, i % 3 == 0));
    link.post_receive(*messages.back());
  }
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  state->bytes[1].assign(bytes.begin(), bytes.end());
  for (int i = 0; i < 40 && link.status().ok(); ++i) {
    const auto moved = link.progress(true);
    state->bytes[0].clear();  // the peer reads the Link's output
    if (i == 20 && data[0] % 8 == 0) {
      link.abandon();
      messages.clear();
    }
    // The memory of a finished request belongs to its owner again.
    for (auto& message : messages) {
      if (message->done) std::vector<std::byte>().swap(message->memory);
    }
    if (!moved.ok() || (!*moved && i > 20)) break;
  }
  return 0;
}

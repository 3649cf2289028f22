// Writes the seeds of the fuzzers into
// FOLDER/{handshake,frames,http,store_message,store_session,server_request,checkpoint}: messages of correct
// ranks, made by the library's own code. So the seeds always match the protocol.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "checkpoint/format.hpp"
#include "fuzz/store_wire.hpp"
#include "methods/parameter_server/request.hpp"
#include "net/handshake.hpp"
#include "transport/frame.hpp"

namespace {

using namespace kolo;
namespace fs = std::filesystem;

void write(const fs::path& folder, const std::string& bytes) {
  fs::create_directories(folder);
  const auto count = std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  std::ofstream(folder / ("seed-" + std::to_string(count)), std::ios::binary) << bytes;
}

void handshakes(const fs::path& folder) {
  for (const char* key : {"key", "other"}) {
    net::Handshake dialer = net::Handshake::dial({"job", key, 1}, 3);
    net::Handshake acceptor = net::Handshake::accept({"job", "key", 3});
    std::string said;
    for (int turn = 0; turn < 4; ++turn) {
      net::Handshake& from = turn % 2 == 0 ? dialer : acceptor;
      net::Handshake& to = turn % 2 == 0 ? acceptor : dialer;
      const std::string words = from.take_output();
      write(folder, words);
      write(folder, said += words);
      if (words.empty() || !to.feed(std::as_bytes(std::span(words))).ok()) break;
    }
  }
  write(folder, "host=1;at=10.0.0.1:4000,[fd00::1]:4000,127.0.0.1:65535");
}

void frames(const fs::path& folder) {
  for (const transport::FrameType type :
       {transport::FrameType::eager, transport::FrameType::rts, transport::FrameType::cts,
        transport::FrameType::ack, transport::FrameType::control, transport::FrameType::credit}) {
    for (std::uint32_t i = 0; i < 8; ++i) {
      transport::FrameHeader header;  // of a message that link_fuzz.cpp receives or sends, or of another one
      header.type = type;
      header.tag = transport::Tag{1, i, 1};
      header.bytes = i % 2 == 0 ? 16 * i : 9000 + i;
      header.signature = {1, 2, 3, 4, 0, header.bytes, 7};
      header.range.region = transport::FrameHeader::kNoRange;
      std::string bytes(1 + sizeof header, static_cast<char>(i));
      std::memcpy(bytes.data() + 1, &header, sizeof header);
      write(folder, bytes + std::string(header.bytes, 'd'));
    }
  }
}

void store(const fs::path& messages, const fs::path& sessions) {
  using rendezvous::wire::Kind;
  const rendezvous::wire::Message all[] = {
      {Kind::set, 0, {"key", "value"}},  {Kind::get, 1'000'000, {"key"}}, {Kind::add, -7, {"n"}},
      {Kind::wait, 0, {"key", "a", ""}}, {Kind::remove, 0, {"key"}},      {Kind::done, 5, {}}};
  std::string talk;
  for (const rendezvous::wire::Message& message : all) {
    const std::string frame = rendezvous::wire::encode(message);
    write(messages, frame.substr(rendezvous::wire::kHeadBytes));
    write(sessions, std::string(1, '\xff') + (talk += frame));  // an authenticated client
  }
  write(sessions,
        std::string(1, '\x10') + net::Handshake::dial(rendezvous::store_identity({"key"}), 0).take_output());
}

void server_requests(const fs::path& folder) {
  using namespace methods;
  const auto write_words = [&](const Header& words) {
    write(folder, std::string(reinterpret_cast<const char*>(words.data()), sizeof words));
  };
  for (std::uint64_t kind = 1; kind <= 7; ++kind) {
    Request request{.kind = static_cast<RequestKind>(kind), .worker = 1, .sequence = 3, .version = 2};
    if (is_push(request.kind)) request.elements = 100;
    if (is_push(request.kind) || request.kind == RequestKind::pull_rows) request.rows = kind;
    write_words(pack(request));
  }
  write_words(pack(Reply{.outcome = PushOutcome::applied, .staleness = 1, .version = 2, .sequence = 3}));
}

void checkpoints(const fs::path& folder) {
  using namespace train;
  FileHeader header{.step = 3, .entries = {{"a", {"U8", {3}}}, {"b[0:4]", {"F64", {4}}}}};
  write(folder, lay_out(header));
  CheckpointIndex index{.step = 3, .files = {{"rank-0.safetensors", header.bytes, 7}}};
  index.tensors["a"] = {.dtype = "U8", .shape = {3}, .parts = {{{}, {0}}}};
  index.tensors["b"] = {.dtype = "F64", .shape = {2, 4}, .order = {1, 0}};
  index.tensors["b"].parts = {{{1, Slice{0, 2}, Slice{0, 4}}, {0}}, {{1, Slice{2, 2}, {}}, {0}}};
  const std::string text = text_of(index);
  write(folder, text.substr(text.find('\n') + 1));  // the fuzzer computes the checksum
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return std::fprintf(stderr, "usage: fuzz_seeds FOLDER\n"), 2;
  const fs::path folder = arguments[1];
  fs::remove_all(folder);
  handshakes(folder / "handshake");
  frames(folder / "frames");
  write(folder / "http", "GET /metrics HTTP/1.1\r\nHost: a:9400\r\nAccept: text/plain\r\n\r\n");
  write(folder / "http", "POST /other HTTP/1.0\n\n");
  checkpoints(folder / "checkpoint");
  server_requests(folder / "server_request");
  store(folder / "store_message", folder / "store_session");
  return 0;
}

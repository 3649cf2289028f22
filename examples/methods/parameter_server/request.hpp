// What a worker of a parameter server asks for, and the answer: headers of a fixed size. Needs no libtorch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace kolo::methods {

/// On the communicator of a worker and a server: these words, then the arrays that they announce.
inline constexpr std::size_t kHeaderWords = 8;
using Header = std::array<std::uint64_t, kHeaderWords>;

inline constexpr int kHeaderTag = 0;
inline constexpr int kArrayTag = 1;

enum class RequestKind : std::uint64_t {
  hello = 1,      ///< which push of this worker was applied last?
  push = 2,       ///< gradients or weights, and rows
  pull = 3,       ///< parameters
  push_pull = 4,  ///< both; the parameters are those after the push
  pull_rows = 5,  ///< rows of tables, by their ids
  finish = 6,     ///< pushes no more; do the other workers? Asked again until they do not
  goodbye = 7,    ///< has left
};

constexpr bool is_push(RequestKind kind) {
  return kind == RequestKind::push || kind == RequestKind::push_pull;
}
/// Whether parameters follow the answer.
constexpr bool is_pull(RequestKind kind) {
  return kind == RequestKind::pull || kind == RequestKind::push_pull;
}

struct Request {
  RequestKind kind = RequestKind::hello;
  std::uint64_t worker = 0;
  std::uint64_t sequence = 0;  ///< number of the worker's last push, this one included, from 1: its clock
  std::uint64_t version = 0;   ///< updates in the parameters with which the worker has computed
  std::uint64_t elements = 0;  ///< float32, of a push
  std::uint64_t rows = 0;      ///< ids (uint64) that follow; the rows of a push follow those (float32)

  bool operator==(const Request&) const = default;
};

/// What may be asked for on one connection.
struct RequestLimits {
  std::uint64_t worker = 0;
  std::uint64_t elements = 0;  ///< of this server's share
  std::uint64_t rows = 0;      ///< of this server's tables together
};

Header pack(const Request& request);
/// Nothing if the words make no sense or exceed the limits; `problem` says why then.
std::optional<Request> parse_request(std::span<const std::uint64_t, kHeaderWords> words,
                                     const RequestLimits& limits, std::string& problem);

enum class PushOutcome : std::uint64_t {
  none = 0,  ///< no push, or not yet
  applied = 1,
  divided = 2,   ///< by its age
  dropped = 3,   ///< too old
  repeated = 4,  ///< it was applied before
  finished = 5,  ///< no push: no worker pushes any more
};

struct Reply {
  PushOutcome outcome = PushOutcome::none;
  std::uint64_t staleness = 0;  ///< updates between the version that the worker computed with and this push
  std::uint64_t version = 0;    ///< updates so far
  std::uint64_t sequence = 0;   ///< of the worker's last push that was applied or dropped

  bool operator==(const Reply&) const = default;
};

Header pack(const Reply& reply);
/// Nothing if the words make no sense.
std::optional<Reply> parse_reply(std::span<const std::uint64_t, kHeaderWords> words);

}  // namespace kolo::methods
